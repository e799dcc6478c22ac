import Trunkline

/// The fuzz targets. The first bytes of an input choose among variants, and where the rest is split.
enum FuzzTarget: String, CaseIterable {
    /// Presets and layouts with every kind of field.
    case layouts
    /// Layouts that the input describes.
    case builder
    /// The codecs of this package.
    case codecs
    /// Responses and requests of HTTP/1.1.
    case http
    /// Codecs like those that users write.
    case redis, mqtt
    /// A client, from connecting to its first requests. The input is what the server sends.
    case handshake
    /// The text of a flight recording, which is read, made a capture file, and replayed.
    case recordings
    /// Callers on real threads, some of which are cancelled.
    case calls

    func run(_ input: FuzzInput) {
        var input = input
        switch self {
        case .layouts: FuzzLayouts.fixed[input.below(FuzzLayouts.fixed.count)].run(&input)
        case .builder: FuzzLayouts.built(from: &input)?.run(&input)
        case .codecs: FuzzCodecs.ours[input.below(FuzzCodecs.ours.count)].run(&input)
        case .http: FuzzCodecs.http[input.below(FuzzCodecs.http.count)].run(&input)
        case .redis: FuzzCodecs.redis[input.below(FuzzCodecs.redis.count)].run(&input)
        case .mqtt: FuzzCodecs.mqtt[input.below(FuzzCodecs.mqtt.count)].run(&input)
        case .handshake: FuzzHandshake.run(&input)
        case .recordings: FuzzRecordings.run(&input)
        case .calls: FuzzCalls.run(&input)
        }
    }
}
