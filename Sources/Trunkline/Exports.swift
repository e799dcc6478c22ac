// `Frame`, `FrameCodec`, `FrameLayout`, `Endpoint` and their kin belong to the public face.
@_exported public import TrunklineCore
public import TrunklineIO

/// A set of event loops: the threads on which clients, connections and test servers live.
public typealias EventLoops = TrunklineIO.EventLoops
