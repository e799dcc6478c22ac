extension FrameLayout {
    /// The source, in Lua, of a dissector with which Wireshark and tshark show this protocol.
    ///
    /// Save it as `acme.lua` in Wireshark's folder of personal Lua plugins, or name it on the command line:
    /// `tshark -X lua_script:acme.lua -r capture.pcap`. It shows every field under `acme.…`, joins frames that came in
    /// several segments, and says in the info column what each frame is. It shows checksums but does not verify them, and
    /// cannot ask a closure that a role has.
    ///
    /// - Parameters:
    ///   - name: What the protocol is called in display filters; must not be the name of one that Wireshark knows. Made
    ///     lower-case; what is no letter of ASCII, digit or underscore becomes an underscore.
    ///   - port: The server's TCP port. Frames on the way to it are requests, all others are responses and pushes.
    public func wiresharkDissector(name: String, port: UInt16) -> String {
        WiresharkScript(self, name: name, port: port).text
    }
}

extension FrameLayout {
    var requestLimits: LayoutPlan.Limits { isServerSide ? inboundLimits : outboundLimits }
    var responseLimits: LayoutPlan.Limits { isServerSide ? outboundLimits : inboundLimits }
}
