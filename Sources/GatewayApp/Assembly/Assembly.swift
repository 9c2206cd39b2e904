import Crypto
import GatewayAudit
import GatewayEvents
import GatewayFiles
import GatewayHTTP
import GatewayProxy
import GatewayStrategies
import GatewayTokenClient
import GatewayTokenStores
import GatewayTokens
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle

/// Turns a plan into parts, in the order in which they need each other. Nothing runs yet; every address is taken.
struct Assembly: Sendable {
    let storage: Storage
    let group: MultiThreadedEventLoopGroup
    let proxy: ProxyServer
    let admin: AdminServers
    /// Where the admin listener answers, with its real port.
    let adminPlace: BoundListener
    /// Makes a control for one question. It speaks of the plan that is served at that moment.
    let makeControl: @Sendable () -> OperatorControl
    /// nil when there is no file to read again.
    let reloader: Reloader?
    let logins: LoginDesk
    let observer: TrafficObserver
    let readiness: ReadinessState
    /// The services in the order in which they start. They stop in the opposite order.
    let services: [any Service]

    /// - Throws: ``CommandFailure`` that says what is wrong and what to do; nothing is left open then.
    init(plan: Plan, options: GatewayOptions) async throws(CommandFailure) {
        let clock = SystemClock()
        let startedAt = clock.now().wall
        let broadcaster = EventBroadcaster()
        // Reads the authorities of the system while the storage waits for the disk.
        let (contexts, opened) = await SideBySide.results {
            UpstreamTLSContexts(of: plan.routes)
        } and: { () async -> Result<Storage, StateError> in
            do throws(StateError) {
                let storage = try await Storage(Storage.Places(plan), clock: clock, logger: options.logger("audit")) {
                    broadcaster.publish($0.map(AuditEntry.init))
                }
                await storage.anchor?.compare()
                return .success(storage)
            } catch {
                return .failure(error)
            }
        }
        do throws(StateError) { storage = try opened.get() } catch { throw CommandFailure(error) }
        let endpoint = OutgoingHTTP(version: GatewayVersion.current)
        let turns = LoopTurns(loops: plan.workers.count)
        group = MultiThreadedEventLoopGroup(numberOfThreads: plan.workers.count, metricsDelegate: turns)
        // The library starts its threads at the first use, and ends the process when the system has none left. A reload is too late.
        _ = NIOThreadPool.singleton
        let telemetry = plan.telemetry.map { RequestTelemetry($0, workers: plan.workers.count) }
        let calls: any TokenEndpoint =
            if let telemetry {
                TracedTokenEndpoint(endpoint: endpoint, telemetry: telemetry, clock: clock)
            } else {
                endpoint
            }
        let feed = AuditEventQueue(audit: storage.audit, metrics: options.metrics, logger: options.logger("audit"))
        let keepers = KeeperSupervisor(clock: clock)
        let clocks = AuthorityClocks(
            measuring: AssertionEndpoint(endpoint: calls),
            clock: clock,
            logger: options.logger("tokens")
        )
        let secretRejection = SecretRejectionFlag()
        let parts = CredentialSources.Parts(
            key: storage.key,
            store: storage.tokens,
            endpoint: clocks,
            programs: SystemProgramRunner(),
            audit: storage.recorder,
            onAuditFailure: plan.audit.onFailure,
            feed: feed,
            locks: storage.locks,
            start: { keepers.start($0) },
            secretRejection: secretRejection,
            clock: clock,
            logger: options.logger("tokens")
        )
        let sources = CredentialSources(credentials: plan.credentials, parts: parts)
        let live = LivePlan(plan: plan, sources: sources, at: startedAt, digest: storage.key.digest(of:))
        for keeper in sources.keepers { keepers.start(keeper) }
        let observer = TrafficObserver(
            audit: storage.audit,
            usage: plan.audit.usage,
            feed: feed,
            metrics: options.metrics,
            clock: clock,
            loggers: TrafficObserver.Loggers(
                audit: options.logger("audit"),
                requests: options.logger("requests"),
                access: options.logger("access")
            ),
            logsRequests: options.logsAccess,
            telemetry: telemetry,
            workers: plan.workers.count,
            uses: { uses, time in
                let fixed = live.state.sources.fixedNames
                broadcaster.note(uses.filter { fixed.contains($0.credential) }, at: time)
            }
        )
        self.observer = observer
        let tokenUses = ClientTokenUses()
        let jwts = ClientJWTParts(
            keySets: ClientKeySets(),
            verify: { JWTSignature.isValid($0, over: $1, as: $2, by: $3) },
            now: { clock.now().wall }
        )
        let readiness = ReadinessState()
        self.readiness = readiness
        let refreshMetrics: @Sendable () async -> Void
        let authenticate = storage.key.authenticator(for: .engineGeneration)
        let captures = CaptureDesk(
            parts: CaptureDesk.Parts(
                keeper: { name in
                    let state = live.state
                    return KeeperLookup(plan: state.plan, sources: state.sources).keeper(of: name)
                },
                store: storage.captures,
                digest: storage.key.authenticator(for: .capturedAccount),
                audit: storage.recorder,
                onAuditFailure: plan.audit.onFailure,
                clock: clock,
                logger: options.logger("logins")
            )
        )
        let servers = ServerFactory(plan: plan, options: options, group: group, turns: turns, clock: clock)
        do throws(CommandFailure) {
            let proxy = try servers.makeProxy(
                sources: sources,
                observer: observer,
                authenticate: authenticate,
                tokenUses: tokenUses,
                jwts: jwts,
                authority: storage.authority,
                captures: captures,
                contexts: contexts
            )
            self.proxy = proxy
            try await servers.bind(proxy)
            let adminTLS = try servers.makeOperatorTLS()
            let reload = Reloader.Parts(
                live: live,
                proxy: proxy,
                adminTLS: adminTLS,
                keepers: keepers,
                locks: storage.locks,
                captures: storage.captures,
                audit: storage.recorder,
                authority: storage.authority,
                secretRejection: secretRejection,
                makeSources: { CredentialSources(credentials: $0.credentials, parts: parts, keeping: $1) },
                makeConfiguration: {
                    ServerFactory.configuration(
                        of: $0,
                        sources: $1,
                        observer: observer,
                        authenticate: authenticate,
                        captures: captures
                    )
                },
                clock: clock,
                logger: options.logger("gateway")
            )
            let reloader = options.configuration.map { Reloader(source: $0, parts: reload) }
            self.reloader = reloader
            let storage = storage
            let writes = CoalescedWrites {
                observer.collect()
                return await storage.audit.writePending(within: .seconds(2))
            }
            let questions = AuditQuestions(path: plan.audit.path)
            let fleetReports = FleetReports()
            let makeControl: @Sendable () -> OperatorControl = {
                OperatorControl(
                    live,
                    reloader: reloader,
                    readiness: readiness,
                    storage: storage,
                    clock: clock,
                    seen: OperatorControl.Observations(
                        upstreamHealth: { observer.upstreamHealth() },
                        clockSkew: { clocks.skewSeconds(of: $0) },
                        traffic: { observer.traffic(of: $0, at: $1) },
                        trafficHour: { observer.hour(at: $0) },
                        writeUses: { await writes.perform() },
                        questions: questions,
                        fleetReports: fleetReports,
                        lockedAt: { broadcaster.lockedAt($0) },
                        startedAt: startedAt,
                        listeners: { proxy.bound.filter { $0.engine == nil } },
                        beginRun: { proof, clients, program in
                            tokenUses.runs.begin(as: proof, of: clients, program) { Array(SHA256.hash(data: $0)) }
                        },
                        heldRequests: { proxy.heldRequests },
                        decide: { proxy.decide($0, approver: $1) },
                        clientTokens: { tokenUses.report(on: $0, at: $1) { Array(SHA256.hash(data: $0)) } }
                    ),
                    withdraw: { await proxy.withdraw($0) }
                )
            }
            self.makeControl = makeControl
            let logins = LoginDesk(
                parts: LoginDesk.Parts(
                    keeper: { makeControl().keeper(of: $0) },
                    audit: storage.recorder,
                    onAuditFailure: plan.audit.onFailure,
                    clock: clock,
                    logger: options.logger("logins")
                )
            )
            self.logins = logins
            let vending = VendingDesk(live: live, observer: observer, tokenUses: tokenUses, jwts: jwts, clock: clock)
            let metrics = options.metrics
            refreshMetrics = {
                let control = makeControl()
                observer.collect()
                TokenMetrics.record(await control.tokens(), await control.expirations(), in: metrics)
                metrics.gauge("gateway_requests_held", []).set(Int64(proxy.heldRequests.count))
                if let shipper = storage.shipper {
                    metrics.gauge("gateway_audit_unshipped_events", []).set(Int64(shipper.shipping.unshipped))
                }
            }
            admin = servers.makeAdmin(
                control: { makeControl() },
                logins: logins,
                vending: vending,
                explainer: Explainer(
                    live: live,
                    proxy: proxy,
                    control: makeControl,
                    archive: RequestArchive(audit: plan.audit, questions: questions) { observer.recentRequests($0) },
                    source: .gateway,
                    clock: clock
                ),
                storage: storage,
                observer: observer,
                broadcaster: broadcaster,
                refreshMetrics: refreshMetrics,
                users: { live.state.plan.admin.users },
                tls: adminTLS
            )
            adminPlace = try await servers.bind(admin, closing: proxy)
        } catch {
            await Self.close(storage, group)
            throw error
        }
        await storage.captures.prune(keeping: sources.captured(in: plan).keys)
        let requests = OwnRequests(http: endpoint, live: live, locks: storage.locks)
        let exporter = Self.exporter(
            plan,
            telemetry,
            options,
            requests,
            instance: storage.key.instanceName,
            clock,
            refreshMetrics
        )
        let fleet = Self.fleet(storage, live, proxy, readiness, startedAt: startedAt, clock, options.logger("tokens"))
        services = [
            // Stops last, so that what the others record while they stop is exported, too.
            exporter.map { [$0] } ?? [],
            storage.anchor.map { [BackgroundService.anchor($0)] } ?? [],
            ChildProcesses.adoptsOrphans ? [BackgroundService.orphans(clock)] : [],
            [
                BackgroundService.audit(storage.audit), BackgroundService.storage(storage, clock),
                BackgroundService.chainCheck(storage.chainCheck), BackgroundService.clientTokens(tokenUses, clock),
                ClientKeyService(
                    sets: jwts.keySets,
                    live: live,
                    requests: requests,
                    clock: clock,
                    logger: options.logger("proxy")
                ),
                BackgroundService.authority(storage.authority, live, clock, options.logger("gateway")),
                AuditFeedService(feed: feed), observer, keepers,
            ],
            fleet,
            [
                ExpirationMonitor(
                    expirations: { [makeControl] in await makeControl().expirations() },
                    audit: storage.audit,
                    clock: clock,
                    logger: options.logger("tokens")
                )
            ],
            [
                AdminListeners(servers: admin, logins: logins),
                ProxyService(
                    server: proxy,
                    readiness: readiness,
                    drainLimit: plan.limits.drain,
                    notifier: options.serviceNotifier,
                    logger: options.logger("proxy")
                ),
            ],
            // Starts last and stops first, so that nothing changes during a drain.
            reloader.map { [$0] } ?? [],
        ].flatMap { $0 as [any Service] }
    }

    /// nil where nothing is exported.
    private static func exporter(
        _ plan: Plan,
        _ telemetry: RequestTelemetry?,
        _ options: GatewayOptions,
        _ requests: OwnRequests,
        instance: String,
        _ clock: any GatewayClock,
        _ refresh: @escaping @Sendable () async -> Void
    ) -> TelemetryExporter? {
        guard let settings = plan.telemetry, let telemetry else { return nil }
        let parts = TelemetryExporter.Parts(
            telemetry: telemetry,
            metrics: options.metrics,
            refresh: refresh,
            requests: requests,
            clock: clock,
            logger: options.logger("telemetry")
        )
        return TelemetryExporter(settings, instance: instance, version: GatewayVersion.current, parts: parts)
    }

    /// Closes what does not close itself, after the services have stopped.
    func close() async { await Self.close(storage, group) }

    private static func close(
        _ storage: Storage,
        _ group: MultiThreadedEventLoopGroup
    ) async {
        // Fails only when it was shut down before.
        try? await group.shutdownGracefully()
        await storage.close()
    }

    // MARK: Fleet

    /// What follows other gateways that share the token store, and tells them of this one.
    static func fleet(
        _ storage: Storage,
        _ live: LivePlan,
        _ proxy: ProxyServer,
        _ readiness: ReadinessState,
        startedAt: UnixTime,
        _ clock: any GatewayClock,
        _ logger: Logger
    ) -> [any Service] {
        let withdraw: @Sendable ([any CredentialSource]) async -> [Int] = { [captures = storage.captures] sources in
            await captures.end(sources.compactMap(\.grantKey))
            return await proxy.withdraw(sources)
        }
        let watcher = TokenStoreWatcher(
            of: storage.tokens,
            keepers: { live.sources.allKeepers },
            ended: { keepers in
                let silent = await withdraw(keepers)
                guard let warning = ProxyServer.warning(of: silent, that: "it has stopped using the token") else {
                    return true
                }
                logger.warning("\(warning)")
                return false
            },
            logger: logger
        )
        let locks = LockFollower(
            storage.locks,
            live: live,
            audit: storage.recorder,
            clock: clock,
            logger: logger,
            withdraw: withdraw
        )
        let host = HostName.current
        let parts = FleetService.Parts(
            store: storage.tokens,
            followLocks: { await locks.follow() },
            followTokens: { await watcher.follow() },
            heartbeat: {
                FleetHeartbeat(
                    id: storage.audit.chainName,
                    host: host,
                    version: GatewayVersion.current,
                    startedAt: startedAt.rfc3339,
                    configurationDigest: live.state.fingerprint.text,
                    unshipped: storage.audit.unshippedEvents
                )
            },
            reloads: live.replacements,
            unlisted: { readiness.note(unlisted: $0) },
            clock: clock,
            logger: logger
        )
        return [watcher, FleetService(parts)]
    }
}

extension Plan.WorkerCount {
    var count: Int {
        switch self {
        case .auto: max(1, System.coreCount)
        case .exactly(let count): count
        }
    }
}
