// Options for kinds of servers that you will meet. The article "Settings for servers you will meet" explains each.

import Trunkline
import TrunklineTesting

/// A server that closes a link on which it has received nothing for 60 s.
func closesIdleLinks() -> ClientOptions {
    ClientOptions { options in
        options.liveness.interval = .seconds(20)
        options.reconnecting.keepsLinkWarm = true
    }
}

/// A half-duplex device that may work on one request for up to two minutes.
func takesOneRequestAtATime() -> ClientOptions {
    ClientOptions { options in
        options.requests.maximumInFlight = 1
        options.requests.quarantine = .seconds(120)
        options.liveness.heartbeat = .none
        options.liveness.maximumStalls = nil
        options.failover.overlap = .never
    }
}

/// A server with commands that wait on it for up to 30 s, in a protocol that matches responses in order.
func hasBlockingCommands() -> ClientOptions {
    ClientOptions { options in
        options.requests.timeout = .seconds(35)
        options.requests.maximumInFlight = 1
        options.liveness.maximumStalls = 2
        options.connecting.keepAlive = KeepAliveOptions(idle: .seconds(20), interval: .seconds(5), count: 3)
    }
}

/// A server whose protocol has no ping.
func hasNoPing() -> ClientOptions {
    ClientOptions { options in
        options.requests.timeout = .seconds(3)
        options.liveness.maximumStalls = 2
        options.liveness.probeAfter = .seconds(3)
        options.connecting.keepAlive = KeepAliveOptions(idle: .seconds(20), interval: .seconds(5), count: 3)
    }
}

/// A server whose serial numbers have 16 bits.
func hasFewSerials() -> ClientOptions {
    ClientOptions { options in
        options.requests.quarantine = .seconds(10)
    }
}

/// A server that accepts connections before it is ready, and takes long to log a client in.
func startsSlowly() -> ClientOptions {
    ClientOptions { options in
        options.connecting.timeout = .seconds(15)
        options.handshake.timeout = .seconds(10)
        options.handshake.perform = { link in
            _ = try await link.send(Request(type: 0x410, body: "are you ready?"))
        }
        options.reconnecting.policy = Backoff(minimum: .milliseconds(500), cap: .seconds(10))
        options.requests.timeout = .seconds(30)
    }
}

/// A server with hundreds of subscriptions, some of which it may reject later.
func hasManySubscriptions() -> ClientOptions {
    ClientOptions { options in
        options.handshake.maximumInFlight = 256
        options.handshake.timeout = .seconds(10)
        options.handshake.restore = { handshaker, subscriptions in
            let outcomes = await handshaker.send(all: subscriptions)
            for case .failure(let error) in outcomes where error.code != .rejected { throw error }
        }
    }
}

/// A server that closes its link after a number of responses, such as nginx, with requests pipelined.
func endsLinksOften() -> ClientOptions {
    ClientOptions { options in
        options.requests.retry = .idempotent(tries: 10)
        var budget = RetryBudget()
        budget.share = 1
        budget.perSecond = 1_000
        options.requests.retryBudget = budget
    }
}

/// The same server, for requests that must not be carried out twice.
func endsLinksOftenAndMustNotRepeat() -> ClientOptions {
    ClientOptions { options in
        options.requests.maximumInFlight = 1
    }
}

/// Servers behind a load balancer, with certificates that change.
func isBehindALoadBalancer() -> ClientOptions {
    ClientOptions { options in
        options.failover.maximumLinkAge = .seconds(600)
        options.failover.drainTimeout = .seconds(30)
        options.tls.rotationCheck = .seconds(10)
    }
}

/// A server that must not see two links of one client.
func refusesASecondLink() -> ClientOptions {
    ClientOptions { options in
        options.failover.overlap = .never
        options.failover.drainTimeout = .seconds(10)
    }
}

/// A server that ignores requests after it has announced its shutdown.
func ignoresRequestsAfterGoAway() -> ClientOptions {
    ClientOptions { options in
        options.failover.sendsAfterGoAway = false
        options.requests.retry = .idempotent()
    }
}

/// A server that pushes large frames over a slow link.
func sendsLargePushes() -> ClientOptions {
    ClientOptions { options in
        options.inbound.maximumUndecoded = 512 * 1024 * 1024
        options.liveness.minimumRate = 10
        options.liveness.deadline = .seconds(30)
        options.requests.timeout = .seconds(60)
    }
}

/// A server that leaves a frame unfinished, such as a prompt without a line end.
func leavesFramesUnfinished() -> ClientOptions {
    ClientOptions { options in
        options.liveness.minimumRate = nil
    }
}

/// A server that leaves out responses, with a protocol that matches them in order.
func leavesResponsesOut() -> ClientOptions {
    ClientOptions { options in
        options.requests.timeout = .seconds(3)
        options.requests.quarantine = .seconds(10)
        options.liveness.maximumStalls = 1
    }
}

/// A server that closes a link on which it has received nothing for 60 s, whatever it sends itself (MQTT's keep alive).
func wantsToHearFromTheClient() -> ClientOptions {
    ClientOptions { options in
        options.liveness.speakAfter = .seconds(30)
    }
}

/// A server at the other end of a satellite link.
func isFarAway() -> ClientOptions {
    ClientOptions { options in
        options.connecting.timeout = .seconds(15)
        options.connecting.attemptDelay = .seconds(2)
        options.handshake.timeout = .seconds(10)
        options.requests.timeout = .seconds(30)
        options.liveness.probeAfter = .seconds(15)
        options.liveness.deadline = .seconds(30)
        options.connecting.userTimeout = .seconds(90)
    }
}

/// A server with many thousands of clients, all of which lose it when it restarts.
func hasManyClients() -> ClientOptions {
    ClientOptions { options in
        options.reconnecting.policy = Backoff(base: .seconds(2), cap: .seconds(60))
        options.failover.order = .shuffled
        options.requests.timeout = .seconds(30)
        var budget = RetryBudget()
        budget.share = 0.1
        budget.perSecond = 1
        budget.initial = 10
        options.requests.retryBudget = budget
    }
}

let recipes: [(name: String, options: ClientOptions)] = [
    ("closes idle links", closesIdleLinks()),
    ("takes one request at a time", takesOneRequestAtATime()),
    ("has blocking commands", hasBlockingCommands()),
    ("has no ping", hasNoPing()),
    ("has few serials", hasFewSerials()),
    ("starts slowly", startsSlowly()),
    ("has many subscriptions", hasManySubscriptions()),
    ("ends links often", endsLinksOften()),
    ("ends links often and must not repeat", endsLinksOftenAndMustNotRepeat()),
    ("is behind a load balancer", isBehindALoadBalancer()),
    ("refuses a second link", refusesASecondLink()),
    ("ignores requests after goAway", ignoresRequestsAfterGoAway()),
    ("sends large pushes", sendsLargePushes()),
    ("leaves frames unfinished", leavesFramesUnfinished()),
    ("leaves responses out", leavesResponsesOut()),
    ("wants to hear from the client", wantsToHearFromTheClient()),
    ("is far away", isFarAway()),
    ("has many clients", hasManyClients()),
]

// One request with each of them.
let server = try await LoopbackServer.start(speaking: .standard)
for recipe in recipes {
    let client = Client(to: server.endpoint, speaking: .standard, options: recipe.options)
    let response = try await client.send(Request(type: 0x410, body: Bytes(recipe.name)))
    print("\(recipe.name): \(response.body == Bytes(recipe.name) ? "answered" : "another answer")")
    await client.close()
}
await server.stop()
print("ServerSettings: done")
