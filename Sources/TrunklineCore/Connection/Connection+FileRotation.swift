/// Replacing a link whose TLS files have changed.
extension Connection {
    func watchFiles(of link: Link) {
        guard let interval = options.tls.rotationCheck, link.secured != nil, !options.tls.files.isEmpty else {
            return
        }
        timers.arm(.files, at: loop.now.advanced(by: max(.milliseconds(1), interval)), for: self)
    }

    func lookAtFiles() {
        guard let known = ready?.fileVersions else { return }
        // Unstructured: a timer cannot await it, and reading file attributes would block the loop. A result that comes
        // too late has no effect.
        Task(executorPreference: loop.callbackExecutor) { [weak self, options] in
            let versions = options.tls.files.map(\.version)
            await self?.saw(versions, insteadOf: known)
        }
    }

    private func saw(_ versions: [FileVersion?], insteadOf known: [FileVersion?]) {
        guard lifecycle < .closing else { return }
        if versions != known {
            if versions != memory.seenFiles { observation?.add(.links, .tlsFilesChanged) }
            memory.seenFiles = versions
            entered { $0.perform($0.machine.renew(because: .files, at: $0.loop.now)) }
        }
        if let ready { watchFiles(of: ready) }
    }
}
