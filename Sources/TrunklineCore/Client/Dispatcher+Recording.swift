/// What a recorder asks its client for.
extension Client: RecordedClient {
    package nonisolated var pendingRequests: [RecordedRequest] { reading { $0.pendingRequests } }
}

extension Dispatcher {
    fileprivate var pendingRequests: [RecordedRequest] {
        requests.ids.compactMap { id in
            guard let facts = requests[id] else { return nil }
            let name = ledger.keptName(of: id)
            switch facts.place {
            case .waiting, .delayed:
                return RecordedRequest(id: id, type: facts.type, name: name, session: nil, number: 0)
            case .onLink(let session, .response(let number)):
                return RecordedRequest(id: id, type: facts.type, name: name, session: session, number: number)
            case .onLink(_, .written): return nil
            }
        }
    }
}
