public import TrunklineCore

extension Cluster {
    /// Sends several requests together, spread over the servers, and returns their results in the same order.
    ///
    /// Consecutive requests go to the same server, at least 16 of them. Each request succeeds or fails separately;
    /// those of which no byte was written are sent to other servers. Otherwise the method behaves like
    /// ``Client/send(all:timeout:options:)-(Collection<Request>,_,_)``.
    public nonisolated func send(
        all requests: some Collection<Request>,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async -> [Result<Response, ClientError>] {
        let requests = Array(requests)
        let groups = max(1, min(picker.table.count, requests.count / Self.smallestGroup))
        let size = (requests.count + groups - 1) / groups
        if groups == 1 { return await sendGroup(requests[...], timeout, options) }
        return await withTaskGroup { group in
            for number in 0..<groups {
                let part = requests[min(number * size, requests.count)..<min((number + 1) * size, requests.count)]
                group.addTask { (number, await self.sendGroup(part, timeout, options)) }
            }
            var results = [[Result<Response, ClientError>]](repeating: [], count: groups)
            for await (number, result) in group { results[number] = result }
            return Array(results.joined())
        }
    }

    private static let smallestGroup = 16

    private nonisolated func sendGroup(
        _ requests: ArraySlice<Request>,
        _ timeout: Timeout,
        _ options: CallOptions
    ) async -> [Result<Response, ClientError>] {
        var results = [Result<Response, ClientError>](repeating: .failure(.cancelledUnsent), count: requests.count)
        // The requests that may be sent again although they were written do not wait for the others.
        await withTaskGroup(of: (Int, Result<Response, ClientError>).self) { group in
            var unsent = Array(requests.indices)
            /// The unsent ones that a server did not take.
            var returned: Set<Int> = []
            do throws(ClientError) {
                var call = try batchCall(timeout, options)
                while !unsent.isEmpty {
                    // What could not be sent at once goes behind the calls that wait.
                    (call.isPlaced, call.turn) = (false, nil)
                    let link = try await nextLink(for: &call)
                    let begun = loop.now
                    // One of them is counted already. A probe is a single request.
                    let count = 1 + (link.member.isProbed ? 0 : link.begin(upTo: unsent.count - 1))
                    let sent = Array(unsent.prefix(count))
                    unsent.removeFirst(count)
                    picker.note(count - 1)
                    // The last of many results, for which all of them wait, tells little about the first.
                    call.isMeasured = count == 1 && !call.isLarge
                    counts.withLock { $0.countRepeats(sent.count { returned.contains($0) }) }
                    var hasFailed = false
                    let timeLeft = call.timeLeft(at: begun)
                    let outcomes = await link.client.send(
                        all: sent.map { requests[$0] },
                        timeout: timeLeft,
                        options: call.tryOptions
                    )
                    for (index, outcome) in zip(sent, outcomes) {
                        results[index - requests.startIndex] = outcome
                        guard case .failure(let error) = outcome else {
                            end(.answered, on: link, from: begun, isMeasured: call.isMeasured)
                            continue
                        }
                        var rest = call
                        switch next(&rest, after: error, on: link, from: begun) {
                        case .elsewhere:
                            unsent.append(index)
                            returned.insert(index)
                            hasFailed = true
                        case .later(let begin):
                            // Two calls with one place in the line would replace each other, and one would never end.
                            (rest.turn, rest.isPart, rest.isPlaced) = (nil, false, true)
                            let (request, rest) = (requests[index], rest)
                            group.addTask { (index, await self.sendAgain(request, rest, at: begin)) }
                        case .failure(let error):
                            callFailed(error, wasPlaced: true)
                            results[index - requests.startIndex] = .failure(error)
                        }
                    }
                    if hasFailed { call.tried.append(link.member.id) }
                }
            } catch {
                for index in unsent { results[index - requests.startIndex] = .failure(error) }
                callFailed(error, wasPlaced: true, count: returned.intersection(unsent).count)
                callFailed(error, wasPlaced: false, count: unsent.count { !returned.contains($0) })
            }
            for await (index, result) in group { results[index - requests.startIndex] = result }
        }
        return results
    }

    private nonisolated func batchCall(
        _ timeout: Timeout,
        _ options: CallOptions
    ) throws(ClientError) -> ClusterCall {
        var call = try uncountedCall(timeout, options, at: loop.now)
        call.tryOptions = options.recorder.map { CallOptions(recorder: $0) } ?? CallOptions()
        call.isPart = true
        return call
    }

    private nonisolated func sendAgain(
        _ request: Request,
        _ call: ClusterCall,
        at begin: Instant
    ) async -> Result<Response, ClientError> {
        var call = call
        call.beginSearch(in: waiting)
        await loop.sleep(until: begin)
        call.rested = loop.now
        do throws(ClientError) {
            let response = try await perform(&call) { client, timeout, options throws(ClientError) in
                try await client.send(request, timeout: timeout, options: options)
            }
            return .success(response)
        } catch {
            return .failure(error)
        }
    }

    /// Sends several one-way messages together to one of the servers, and returns their results in the same order.
    ///
    /// Each message succeeds or fails separately; those of which no byte was written are sent to another server,
    /// together. Otherwise the method behaves like ``Client/post(all:timeout:options:)``.
    ///
    /// - Parameters:
    ///   - requests: The messages.
    ///   - timeout: The time from this call until each message is written. Default: the timeout of `options`, or else
    ///     ``ClientOptions/Requests/timeout`` (8 s).
    ///   - options: Whether the messages wait for a server.
    /// - Returns: The result of each message.
    public nonisolated func post(
        all requests: some Collection<Request>,
        timeout: Timeout = .default,
        options: CallOptions = CallOptions()
    ) async -> [Result<Void, ClientError>] {
        let requests = Array(requests)
        var results = [Result<Void, ClientError>](repeating: .failure(.cancelledUnsent), count: requests.count)
        var (unsent, isAgain) = (Array(requests.indices), false)
        do throws(ClientError) {
            if unsent.isEmpty { return results }
            var call = try batchCall(timeout, options)
            call.provesNothing()
            while !unsent.isEmpty {
                call.isPlaced = false
                let link = try await nextLink(for: &call)
                let begun = loop.now
                picker.note(unsent.count - 1)
                if isAgain { counts.withLock { $0.countRepeats(unsent.count) } }
                let sent = exchange(&unsent, with: [])
                let outcomes = await link.client.post(
                    all: sent.map { requests[$0] },
                    timeout: call.timeLeft(at: begun),
                    options: call.tryOptions
                )
                for (index, outcome) in zip(sent, outcomes) {
                    results[index] = outcome
                    guard case .failure(let error) = outcome else { continue }
                    let failure = ofCluster(error, link)
                    results[index] = .failure(failure)
                    if failure.fate == .notSent, failure.mayBeSentElsewhere {
                        unsent.append(index)
                    } else {
                        callFailed(failure, wasPlaced: true)
                    }
                }
                // The server has one request fewer for all of them: none waits for an answer.
                end(end(ofMessages: outcomes), on: link, from: begun, isMeasured: false)
                isAgain = true
                call.tried.append(link.member.id)
            }
        } catch {
            for index in unsent { results[index] = .failure(error) }
            callFailed(error, wasPlaced: isAgain, count: unsent.count)
        }
        return results
    }

    private nonisolated func end(ofMessages results: [Result<Void, ClientError>]) -> ClusterMember.End {
        var ends: [ClusterMember.End] = []
        for result in results {
            switch result {
            case .success: ends.append(.accepted)
            case .failure(let error): ends.append(end(of: error))
            }
        }
        return [.lost, .failed, .accepted].first { ends.contains($0) } ?? ends.first ?? .notSent
    }
}
