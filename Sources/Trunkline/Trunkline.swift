// What `import Trunkline` gives: the client with all that most programs need. Each of these modules can also be
// imported by itself.
@_exported public import TrunklineCache
@_exported public import TrunklineCluster
@_exported public import TrunklineCore
@_exported public import TrunklineLayouts
@_exported public import TrunklineLogging
