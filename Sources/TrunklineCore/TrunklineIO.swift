// The API of the engine uses types of this module, such as `Bytes` and `Endpoint`, so a program that imports the engine
// also needs this module.
@_exported public import TrunklineIO
