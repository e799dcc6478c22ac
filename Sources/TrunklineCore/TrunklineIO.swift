// The engine's API names values of the module below, such as `Bytes` and `Endpoint`: whoever imports the one has both.
@_exported public import TrunklineIO
