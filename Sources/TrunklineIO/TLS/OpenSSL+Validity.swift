import CTrunkline

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

extension OpenSSL {
    /// For example `/CN=worker expired on 2026-11-23 22:00:00 UTC`.
    func validity(of certificate: OpaquePointer?) -> String? {
        guard let certificate = unsafe certificate else { return nil }
        let first = unsafe api.pointee.X509_get0_notBefore(certificate)
        let last = unsafe api.pointee.X509_get0_notAfter(certificate)
        guard let begin = unsafe text(of: first), let end = unsafe text(of: last) else { return nil }
        var name = [CChar](repeating: 0, count: 256)
        _ = unsafe api.pointee.X509_NAME_oneline(api.pointee.X509_get_subject_name(certificate), &name, 256)
        let subject = String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        // The time is before now if the result is negative.
        if unsafe api.pointee.X509_cmp_current_time(last) < 0 { return "\(subject) expired on \(end)" }
        if unsafe api.pointee.X509_cmp_current_time(first) > 0 { return "\(subject) is not valid before \(begin)" }
        return "\(subject) is valid from \(begin) until \(end)"
    }

    private func text(of time: UnsafeRawPointer?) -> String? {
        var parts = unsafe tm()
        guard let time = unsafe time, unsafe api.pointee.ASN1_TIME_to_tm(time, &parts) == 1 else { return nil }
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let day = unsafe "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))"
        return unsafe "\(day) \(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec)) UTC"
    }
}
