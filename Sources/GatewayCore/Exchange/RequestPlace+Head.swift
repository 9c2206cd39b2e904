extension RequestPlace {
    static let maximumHost = 128

    package init(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>, peer: String) {
        let host = head.form == .absolute ? head.targetAuthority : head.host
        self.init(
            peer: peer,
            host: bytes.string(host.lowerBound..<min(host.upperBound, host.lowerBound + Self.maximumHost)),
            path: PathTemplate.text(bytes, path: head.path)
        )
    }
}
