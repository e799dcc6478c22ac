import Foundation
import Testing
import Trunkline

@testable import TrunklineFoundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Bodies between a writer that cannot be paused and a slow reader.
@Suite(.tags(.realThreads), .timeLimit(.minutes(5)))
struct BodySpoolTests {}

extension BodySpoolTests {
    @Test func bytesReadAtOnceStayInMemory() async throws {
        let spool = BodySpool(memory: 100, limit: 0)
        for number in 0..<50 {
            try spool.append(Data([UInt8(number)]))
            #expect(try await spool.next() == Data([UInt8(number)]))
        }
        spool.finish(.success(()))
        #expect(spool.isAtEnd)
        #expect(try await spool.next() == nil)
        #expect(try await spool.next() == nil)
    }

    @Test func unreadBytesAreWrittenToAFile() async throws {
        let spool = BodySpool(memory: 1000, limit: 1_000_000)
        let content = pattern(500_000)
        for start in stride(from: 0, to: content.count, by: 700) {
            try spool.append(content.subdata(in: start..<min(start + 700, content.count)))
        }
        #expect(spool.held.memory <= 1000 && spool.held.file >= 499_000)
        spool.finish(.success(()))
        var read = Data()
        while let piece = try await spool.next() { read += piece }
        #expect(read == content)
    }

    @Test(arguments: 0..<40 as Range<UInt64>)
    func bytesAreReadInOrder(seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        let spool = BodySpool(memory: Int.random(in: 1...3000, using: &generator), limit: 10_000_000)
        let content = pattern(Int.random(in: 1...200_000, using: &generator), seed: seed)
        let sizes = (0..<10_000).map { _ in Int.random(in: 1...4000, using: &generator) }
        async let read = { () async throws -> Data in
            var read = Data()
            while let piece = try await spool.next() { read += piece }
            return read
        }()
        var start = 0
        for size in sizes where start < content.count {
            try spool.append(content.subdata(in: start..<min(start + size, content.count)))
            start += size
            if size.isMultiple(of: 3) { await Task.yield() }
        }
        spool.finish(.success(()))
        #expect(try await read == content)
    }

    @Test func theFileRestartsWhenItHasBeenRead() async throws {
        let spool = BodySpool(memory: 10, limit: 100)
        for round in 0..<100 {
            for _ in 0..<10 { try spool.append(Data(repeating: UInt8(round), count: 10)) }
            var count = 0
            while count < 100 { count += try await spool.next()?.count ?? 1000 }
            #expect(count == 100)
        }
    }

    @Test(arguments: 0..<20 as Range<UInt64>)
    func theFileStaysWithinItsLimitWhileTheReaderIsBehind(seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        let spool = BodySpool(memory: 10, limit: 1000, readSize: 100)
        let content = pattern(50_000, seed: seed)
        var (written, read) = (0, Data())
        while written < content.count {
            // Always enough that the file cannot be restarted.
            while written - read.count < 600 {
                let next = min(content.count, written + Int.random(in: 1...300, using: &generator))
                try spool.append(content.subdata(in: written..<next))
                written = next
                if written == content.count { break }
            }
            read += try await spool.next() ?? Data()
        }
        spool.finish(.success(()))
        while let piece = try await spool.next() { read += piece }
        #expect(read == content)
    }

    @Test func exceedingTheLimitIsAnError() async throws {
        let spool = BodySpool(memory: 10, limit: 20)
        for _ in 0..<3 { try spool.append(Data(count: 10)) }
        let refusal = await urlError { try spool.append(Data(count: 10)) }
        #expect(refusal?.code == .dataLengthExceedsMaximum)
        let error = await urlError { while try await spool.next() != nil {} }
        #expect(error?.code == .dataLengthExceedsMaximum)
    }

    @Test func everyWaitingReaderLearnsOfTheEnd() async throws {
        for end in [Result<Void, URLError>.success(()), .failure(URLError(.networkConnectionLost))] {
            let spool = BodySpool(memory: 10, limit: 20)
            async let first = urlError { _ = try await spool.next() }
            async let second = urlError { _ = try await spool.next() }
            await Task.yield()
            spool.finish(end)
            let errors = await [first, second]
            if case .success = end {
                #expect(errors == [nil, nil])
            } else {
                #expect(errors.map { $0?.code } == [.networkConnectionLost, .networkConnectionLost])
            }
        }
    }

    @Test func anAbandonedSpoolHoldsNoBytes() async throws {
        let spool = BodySpool(memory: 10, limit: 1000)
        for _ in 0..<10 { try spool.append(Data(count: 10)) }
        spool.abandon(URLError(.cancelled))
        try spool.append(Data(count: 10))
        #expect(spool.held == (0, 0))
        let error = await urlError { _ = try await spool.next() }
        #expect(error?.code == .cancelled)
    }

    /// The writer had reserved a place in the file before the spool was abandoned. After the write, its bytes could be
    /// read.
    @Test func aSpoolAbandonedDuringAWriteHoldsNoBytes() async throws {
        for _ in 0..<500 {
            let spool = BodySpool(memory: 10, limit: 1_000_000)
            async let writing: Void = { () async throws -> Void in
                for _ in 0..<20 { try spool.append(Data(count: 1000)) }
            }()
            while spool.held.file == 0 { await Task.yield() }
            spool.abandon(URLError(.cancelled))
            try await writing
            #expect(spool.held == (0, 0))
            let error = await urlError { _ = try await spool.next() }
            #expect(error?.code == .cancelled)
        }
    }

    @Test func abandoningASpoolAtItsEndChangesNothing() async throws {
        let whole = BodySpool(memory: 10, limit: 1000)
        try whole.append(Data(count: 10))
        whole.finish(.success(()))
        _ = try await whole.next()
        whole.abandon(URLError(.cancelled))
        #expect(try await whole.next() == nil)
        let cut = BodySpool(memory: 10, limit: 1000)
        cut.finish(.failure(URLError(.networkConnectionLost)))
        cut.abandon(URLError(.cancelled))
        let error = await urlError { _ = try await cut.next() }
        #expect(error?.code == .networkConnectionLost)
    }

    // MARK: Files

    /// An event loop that deallocated a large file freed all of its blocks, and every link waited.
    @Test func aFileIsClosedByTheGivenFunction() throws {
        let closing = Lock<[@Sendable () -> Void]>([])
        var file: TemporaryFile? = try TemporaryFile(in: NSTemporaryDirectory(), isNamed: true) { close in
            closing.withLock { $0.append(close) }
        }
        let path = try #require(file?.path)
        #expect(FileManager.default.fileExists(atPath: path))
        file = nil
        #expect(!FileManager.default.fileExists(atPath: path))
        let closes = closing.withLock { $0 }
        #expect(closes.count == 1)
        for close in closes { close() }
    }
}
