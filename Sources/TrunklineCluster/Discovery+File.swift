import TrunklineCore

extension Discovery {
    /// The servers in a text file that another program writes.
    ///
    /// ```
    /// # One server a line.
    /// 10.0.0.7:7000
    /// 10.0.1.8:7000   weight=2 zone=eu-1
    /// tls://10.0.2.9:7443 name=orders.example version=5   # other keys are metadata
    /// ```
    ///
    /// A line has an endpoint, in the format of ``Endpoint/init(parsing:)`` and without spaces, and then any number of
    /// fields `key=value`, separated by spaces or tabs:
    ///
    /// | Field | Property | Values |
    /// |---|---|---|
    /// | `weight` | ``ClusterEndpoint/weight`` | 0, or a number from 0.000001 to 1000000; default 1 |
    /// | `zone` | ``ClusterEndpoint/zone`` | a text without spaces |
    /// | `name` | ``ClusterEndpoint/serverName`` | the name in the TLS certificate |
    /// | any other | ``ClusterEndpoint/metadata`` | a text without spaces, or nothing |
    ///
    /// Empty lines are ignored, and so is everything from a `#` at the beginning of a line or after a space.
    ///
    /// The file is read again when its inode, size or modification time has changed, and once more after that. Write a
    /// new file and rename it, so that the discovery never reads half of a list.
    ///
    /// If the file cannot be read, has more than 1 MiB, or has an invalid line, the cluster keeps its list. The error
    /// names the file and the line, and is reported once until it changes. A file without servers changes nothing, too.
    ///
    /// - Parameters:
    ///   - path: The path of the file. It need not exist yet.
    ///   - interval: How often the file is checked. Default 1 s, at least 100 ms.
    public static func file(_ path: String, every interval: Duration = .seconds(1)) -> Discovery {
        Discovery(name: "the file \(path.escaped())") { receiver in
            var file = WatchedFile(path)
            while !Task.isCancelled {
                let begin = receiver.loop.now
                // Reading may block. An event loop must not, so a task of its own reads, as for the files of TLS.
                let reading = Task(executorPreference: receiver.loop.callbackExecutor) { [file] in
                    var file = file
                    let news = file.look()
                    return (file, news)
                }
                let (seen, news) = await reading.value
                file = seen
                if Task.isCancelled { return }
                switch news {
                case .list(let list)?: receiver.found(list.servers)
                case .failure(let error)?: receiver.failed(error)
                case nil: break
                }
                await receiver.loop.sleep(until: begin.advanced(by: max(.milliseconds(100), interval)))
            }
        }
    }
}

/// A file with servers, and what was read last.
struct WatchedFile: Sendable {
    enum News: Equatable, Sendable {
        case list(EndpointList)
        case failure(EndpointFileError)
    }

    static let limit = 1 << 20

    private let path: String
    private var version: FileVersion?
    /// Whether this version was read twice. The clock of the file system may stand still between two changes of which
    /// only the first was read.
    private var isConfirmed = false
    private var latest: News?

    init(_ path: String) { self.path = path }

    /// Returns what is different from the last time. Blocks.
    mutating func look() -> News? {
        // Before the content: a change in between is found the next time.
        let version = FileVersion(ofFile: path)
        let isNew = latest == nil || version != self.version
        // What could not be read may be readable later, without a change of the file.
        if case .failure(.unreadable)? = latest {} else if !isNew, isConfirmed { return nil }
        (self.version, isConfirmed) = (version, !isNew)
        let news = read()
        guard news != latest else { return nil }
        latest = news
        return news
    }

    private func read() -> News {
        switch contents(ofFile: path, limit: Self.limit) {
        case .failure(let error): return .failure(.unreadable(error))
        case .success(let text):
            do throws(EndpointListError) {
                return .list(try EndpointList(parsing: text))
            } catch {
                return .failure(.invalid(path: path, error))
            }
        }
    }
}

enum EndpointFileError: Error, Hashable, Sendable, LoggableError {
    case unreadable(TransportError)
    case invalid(path: String, EndpointListError)

    var description: String {
        switch self {
        case .unreadable(let error): "\(error)"
        case .invalid(let path, let error): "reading \(path.escaped()): \(error)"
        }
    }
}
