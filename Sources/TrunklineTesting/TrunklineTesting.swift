// The test server is a module of its own, for programs that need nothing else of the test kit. Whoever imports the kit has both.
@_exported public import TrunklineLoopback
