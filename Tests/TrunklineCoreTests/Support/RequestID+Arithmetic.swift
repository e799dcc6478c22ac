import Trunkline

extension RequestID {
    static func + (id: RequestID, count: Int) -> RequestID { id.advanced(by: count) }
    static func += (id: inout RequestID, count: Int) { id = id + count }
}
