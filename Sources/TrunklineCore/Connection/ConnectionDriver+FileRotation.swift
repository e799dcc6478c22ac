/// Replacing a link whose TLS files have changed.
extension ConnectionDriver {
    func watchFiles(of link: Link) {
        guard let interval = options.tls.rotationCheck, link.secured != nil, !options.tls.files.isEmpty else {
            return
        }
        arm(.files, at: loop.now.advanced(by: max(.milliseconds(1), interval)))
    }

    func lookAtFiles() {
        guard let ready, ready.fileVersions != nil else { return }
        // Unstructured: a timer cannot await it, and reading file attributes would block the loop. A result that comes
        // too late has no effect.
        Task(executorPreference: loop.callbackExecutor) { [weak reference, options, session = ready.session] in
            let versions = options.tls.files.map(\.version)
            reference?.driver.schedule { $0.saw(versions, forLink: session) }
        }
    }

    /// A link that became ready meanwhile may have read newer files, and looks at them itself.
    func saw(_ versions: [FileVersion?], forLink session: SessionID) {
        guard lifecycle < .closing, let ready, ready.session == session else { return }
        if versions != ready.fileVersions {
            if versions != memory.seenFiles { observation?.add(.links, .tlsFilesChanged) }
            memory.seenFiles = versions
            perform(machine.renew(because: .files, at: loop.now))
        }
        if let ready = self.ready { watchFiles(of: ready) }
    }
}
