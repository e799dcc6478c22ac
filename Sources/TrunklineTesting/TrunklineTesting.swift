// The test server is a separate module, for programs that need nothing else of the test kit. Tests usually need both.
@_exported public import TrunklineLoopback
