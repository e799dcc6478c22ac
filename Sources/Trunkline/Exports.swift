// `Frame`, `FrameCodec`, `FrameLayout`, `Endpoint` and their kin, and `EventLoops`, belong to the public face.
@_exported public import TrunklineCore
@_exported public import TrunklineIO
