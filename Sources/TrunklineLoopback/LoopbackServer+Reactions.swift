import TrunklineCore
import TrunklineLayouts

extension LoopbackServer {
    /// `keepsTurn` is true for a request whose response is matched in order.
    func perform(
        _ reaction: Reaction,
        for request: Frame,
        on link: ServerLink,
        keepsTurn: Bool = false,
        exchange: OpenExchange? = nil
    ) {
        let channel = link.matching == .inOrderByChannel ? link.codec.channel(of: request) : 0
        if keepsTurn, link.heldUp.contains(channel) {
            let program = Program(reaction, for: request, on: link.transport.id, channel: channel, keepsTurn: true)
            link.lines[channel, default: Deque()].append(program)
        } else if case .echo = reaction.action {  // the common case, without a program
            guard !link.isEnding else { return }
            if send(reply(Frame(.response), to: request, echoing: true, on: link), on: link) { record.replyCount += 1 }
        } else {
            run(
                Program(
                    reaction,
                    for: request,
                    on: link.transport.id,
                    channel: channel,
                    keepsTurn: keepsTurn,
                    exchange: exchange
                )
            )
        }
    }

    func run(_ program: Program) {
        var program = program
        let heldUp = program.holdsUp
        while let step = program.steps.popLast() {
            guard let link = links[program.link], !link.isEnding else { return }
            switch step {
            case .write(let writing): program.writing = writing
            case .react(let reaction):
                guard perform(reaction.action, of: &program, on: link) else {
                    if heldUp, !program.holdsUp { runLine(program.channel, of: link) }
                    return
                }
            }
        }
        guard let link = links[program.link] else { return }
        if let exchange = program.exchange { close(exchange, on: link) }
        if heldUp { runLine(program.channel, of: link) }
    }

    /// Runs the programs that waited for the reply of a delayed one, up to the next that has to wait.
    func runLine(_ channel: UInt64, of link: ServerLink) {
        link.heldUp.remove(channel)
        while !link.heldUp.contains(channel), let program = link.lines[channel]?.popFirst() {
            if link.lines[channel]?.isEmpty == true { link.lines[channel] = nil }
            run(program)
        }
    }

    /// Returns `false` if the rest of the program is kept for later.
    private func perform(_ action: Reaction.Action, of program: inout Program, on link: ServerLink) -> Bool {
        switch action {
        case .noReply: break
        case .echo:
            emit(reply(Frame(.response), to: program.request, echoing: true, on: link), program, link)
            program.keepsTurn = false
        case .reply(let frame):
            emit(reply(frame, to: program.request, echoing: false, on: link), program, link)
            program.keepsTurn = false
        case .part(let frame): emit(reply(frame, to: program.request, echoing: false, on: link), program, link)
        case .endlessParts(let frame, let delay):
            if link.unsentCount < 1024 * 1024 {
                emit(reply(frame, to: program.request, echoing: false, on: link), program, link)
            }
            program.steps.append(.react(Reaction(action)))
            postpone(&program, delay, link)
            return false
        case .unknownSerial:
            var frame = reply(Frame(.response), to: program.request, echoing: true, on: link)
            if case .serial(let range) = link.matching { frame.serial = range.upperBound }
            emit(frame, program, link)
        case .push(var frame):
            frame.kind = .push
            emit(frame, program, link)
        case .ping:
            link.unansweredPings += 1
            emit(link.codec.serverPing, program, link)
        case .frame(let frame): emit(frame, program, link)
        case .bytes(let bytes): emit(Array(bytes), program, link)
        case .absurdLength: emitAbsurdLength(program, link)
        case .sequence(let reactions): program.steps += reactions.reversed().map { .react($0) }
        case .inPieces(let size, let reaction): program.enter(.pieces(size), reaction)
        case .half(let reaction): program.enter(.half, reaction)
        case .halfForEver(let reaction): program.enter(.halfForEver, reaction)
        case .flippingBit(let bit, let reaction): program.enter(.flipped(bit), reaction)
        case .close: finish(link)
        case .startTLS:
            link.appendStartTLS()
            markDirty(link)
        case .reset: close(link, .reset)
        case .perform(let body):
            begin(body, &program, on: link)
            return false
        case .stopReading:
            link.isStopped = true
            updateReading(link)
        case .after(let delay, let reaction):
            program.steps.append(.react(reaction))
            postpone(&program, delay, link)
            return false
        case .outOfOrder(let window, let seed, let reaction):
            program.steps.append(.react(reaction))
            (program.keepsTurn, program.holdsUp) = (false, false)
            hold(program, window, seed, link)
            return false
        }
        return true
    }

    func reply(
        _ frame: Frame,
        to request: Frame,
        echoing: Bool = false,
        typed type: UInt32? = nil,
        on link: ServerLink
    ) -> Frame {
        var reply = echoing ? request : frame
        reply.kind = frame.kind == .part ? .part : .response
        reply.malformedReason = nil
        reply.copySerial(of: request)
        let layout = link.codec.base as? FrameLayout
        // Parts with their own types get one from the codec.
        if reply.type == 0, reply.kind != .part || layout?.hasTypesOfParts != true { reply.type = type ?? request.type }
        if !echoing { layout?.repeatFields(of: request, in: &reply) }
        if echoing || (reply.status == 0 && !reply.isErrorResponse) {
            reply.status = options.successStatus ?? layout?.successStatus ?? 0
        }
        return reply
    }

    @discardableResult
    func emit(_ frame: Frame, _ program: Program, _ link: ServerLink) -> Bool {
        let isEncoded: Bool
        if case .whole = program.writing {
            isEncoded = send(frame, on: link)
        } else {
            isEncoded = encode(on: link) { () throws(FrameError) in emit(try link.encoded(frame), program, link) }
        }
        if isEncoded, frame.kind == .response { record.replyCount += 1 }
        return isEncoded
    }

    private func emit(_ bytes: [UInt8], _ program: Program, _ link: ServerLink) {
        switch program.writing {
        case .whole: link.append(bytes)
        case .pieces(let size): link.append(bytes, inPiecesOf: size)
        case .half:
            link.append(Array(bytes.prefix(bytes.count / 2)))
            link.appendClose()
        case .halfForEver:
            link.append(Array(bytes.prefix(bytes.count / 2)))
            link.appendHang()
        case .flipped(let bit):
            var flipped = bytes
            if bit / 8 < bytes.count { flipped[bit / 8] ^= 0x80 >> UInt8(bit % 8) }
            link.append(flipped)
        }
        markDirty(link)
    }

    private func emitAbsurdLength(_ program: Program, _ link: ServerLink) {
        guard let layout = link.codec.base as? FrameLayout else {
            return emit([UInt8](repeating: 0xFF, count: 64), program, link)
        }
        let frame = reply(Frame(.response), to: program.request, echoing: false, on: link)
        _ = encode(on: link) { () throws(FrameError) in
            emit(try layout.headerWithAbsurdLength(of: frame), program, link)
        }
    }

    private func postpone(_ program: inout Program, _ delay: Duration, _ link: ServerLink) {
        program.holdsUp = program.keepsTurn
        if program.holdsUp { link.heldUp.insert(program.channel) }
        lastID = lastID.advanced(by: 1)
        let deadline = loop.now.advanced(by: max(.zero, delay))
        delayed[lastID] = Delayed(program: program, deadline: deadline)
        deadlines.insert(lastID, deadline: deadline)
        link.delayed[program.request.serial, default: []].insert(lastID)
        if deadlines.isCrowded(alive: delayed.count) { deadlines.compact { delayed[$0] != nil } }
    }

    private func hold(_ program: Program, _ window: Int, _ seed: UInt64?, _ link: ServerLink) {
        link.held.append(program)
        guard link.held.count >= window else { return }
        var batch = exchange(&link.held, with: [])
        if let seed {
            var generator = SeededGenerator(seed: seed)
            batch.shuffle(using: &generator)
        } else {
            batch.reverse()
        }
        for program in batch { run(program) }
    }

    func runDelayed(at now: Instant) {
        var due: [RequestID] = []
        while let id = deadlines.popDue(at: now) { due.append(id) }
        let programs = due.compactMap { id in delayed[id].map { (id: id, deadline: $0.deadline) } }
            .sorted { ($0.deadline, $0.id) < ($1.deadline, $1.id) }
        for (id, _) in programs {
            // An earlier program may have closed the link, which drops this one.
            guard let program = delayed.removeValue(forKey: id)?.program else { continue }
            links[program.link]?.removeDelayed(id, serial: program.request.serial)
            run(program)
        }
    }

    func dropReplies(to serial: SerialNumber, on link: ServerLink) {
        for id in link.delayed.removeValue(forKey: serial) ?? [] {
            delayed[id] = nil
            record.droppedReplyCount += 1
        }
        if let open = link.exchanges[serial] {
            if open.task != nil { record.droppedReplyCount += 1 }
            end(open, on: link)
        }
        let count = link.held.count
        link.held.removeAll { $0.request.serial == serial }
        record.droppedReplyCount += count - link.held.count
    }

    func forgetDelayed(of link: ServerLink) {
        endExchanges(of: link)
        endCalls(of: link)
        for ids in link.delayed.values {
            for id in ids { delayed[id] = nil }
        }
        link.delayed.removeAll()
        link.held.removeAll()
        link.lines.removeAll()
        link.backlog.removeAll()
    }
}
