/// The key pair of the sandbox's Box app. It is the same in every sandbox and protects nothing.
enum BoxKeyPair {
    static let keyID = "sandboxkey"
    static let passphrase = "sandbox-box-passphrase"

    static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAt244CZip50bshVtqDCum
        lBm84Zy1egql6tCbgmMegcJ934KfjIVXd//TRSGlMAw8k+GnFMF9WXq99ttM7Q5Y
        Pdo0WS8zBJxBFk66zqqLj5uojBRm88YQoYp8e1IYxeSso72hUyaxqfDr1ISExdyV
        bIG6ABg+G46mgBuv8tz8dX144Sbk9uc5OXtTlQrAfN0FpHMxQSRo97XQMJmM0Dyg
        JUqpDmRtznrd8A3ftjBUu3qmvCKxXRcN0aVhSs0vJs4Jl0+E73/neFDD5DF9kSeX
        t4cpfovx4i2G3Smlvh//A45E4WCA7fu2sIoM3xAFQIp4wLwDlDXjOdWQEioKgp0V
        UQIDAQAB
        -----END PUBLIC KEY-----
        """

    /// PKCS#8, encrypted with AES-256.
    static let privateKey = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIIFLTBXBgkqhkiG9w0BBQ0wSjApBgkqhkiG9w0BBQwwHAQIiQAbDRJu8wICAggA
        MAwGCCqGSIb3DQIJBQAwHQYJYIZIAWUDBAEqBBBVheJjgXbwEVnUOMkzcJREBIIE
        0BVg59HgGfHli1jYOihQKqsAQAFqlrkOFgdAvVOhvboopo+etDJo+96+kKKQxFQy
        O8R+FW3e+psZsUqOD+ImT41dd8/z3dzKN65/no+zwUenm+05JFrltTM8aUvpZao6
        nw0o2fPZ97VwcCTlZl0rkQQBttt8+Ex7i0ffkyREnSA3W/0Ygy6AJUgjYvIs8DjQ
        RgdGhriv9r2zvG7vVJJ7USyVg2z39psOfBtDPwtAm/aHVt2EDkzzy6ZXed0/qSxY
        rtzLvAUJpeZotgIQvrAFkDtezt+nKgDnM0C4m5dP3jMBQT7j5HZbkeqYRrs9r96p
        JvGqCAxUI1g942fkIFtP6dN2rs71Ua0i1+GlztuBBAGZE6JvSQRaIF7USkw70pQn
        Y+bsENFuvlYy+kdC9vXCMz75VfyDxfbhbUTcmcKDxRIo0UOh41SdFmV92IVs48p7
        EKlZHRZdsEt0lpD66sPukssIZrQV/bqfySa2WPInQ5F/gL311FQ8noMF2BvxOVyG
        +DjsjS/dqP80cDv2CxNQd6Sa/aDJdfG7BTwHei+MKeQChmo/ZrtR6tEobfrnl60/
        AMVPmOD8iHxFS7AMpuHdyALdsVSbDBW1yofwwIa4jq8WR3iB4vnzgJw/nXqxlHRw
        eEusywBubcrrc5hpVqRElGCFwlnwxNIZD20I3N6eW74ys9TAAHNU/419jatD4zDD
        urYqGxXdL8t0GSpr9FY8cbtxM1IRKGanJB0HEsu7wLDJFZq3ZWJJLs84na58SvBc
        SND635wEdflQTl1Lcd9lnnOXiQmZs4JbRsGD5TfyrdgMJuAc/eRpyMmitfsZEIbh
        E8Ep3DLmpYHwIQKNYT6IOb9/p7B5uoYe3VJP2c0utgdNrzau8Nu6s72yX1NtS9yI
        jHjwPy/So4Q/5wfvYO8h7ZsKOoitmWppxwTyEufGNhvQf+NDHEYRNevfvlXv/0iO
        Ur1cHQjQpxHZ/o9jsqRWmNdol6aQOZqX9vvgm9ZTTCDB7WON75p6om8hkHqADsGf
        Mhz9CT+NbTpEplPFcHyHEd5vMLY6JCdLU2N/9YALTRWLiQRWfgDXrhtXiE3FLmvi
        xBnFsURee23pHbnq8nhuY3oW71ULd9bBXeKWxvGuULety4Y64+iZsGzcRZRU2pAL
        0rSXJeV22+ycWnIj3BQKGAXVMc7ftILECRHNYXsSAtVwTrtELHkhXmss4auTL9DB
        H8j356QLnjHXtbP9DKiY6LTOfjXU8LXd2AXNAdffEK0xmBfG3OaxeVdZe/499EXp
        sJJR+wuytQeuAyg81x2mpk+HbRW5aX8NN5DR+OeiQwOtuZGAj4cAc8LMkl/FShp3
        L6Kbkr/lPDKaSiOdBftQSiyJtsWWSKLfSZ2TA8KXiUhqeg0dr1/JCisNAbKnp6GK
        E52KtZYsGbBjsqRKbLHRlVqY18n1u6nSFfkd1hYTKs1r/B1EElG/LSTbZ4XeT+GM
        wxN4hWnkO1V713v1oS9igMo2Y4kMwgu9baqt9BJfNLDZAKG4y9pyUtQVN3hznCls
        5HLuAwGMJHLkKdBagrxH1z7w87Avj9K9LiJsqHsLV9UDjoDZFoZEgDVrh/6qUOdH
        dUDwJnIhZFOGJMh0MkkjJ8pnOp8UZaUoL8aAl1r50VgT
        -----END ENCRYPTED PRIVATE KEY-----
        """
}

extension Accounts {
    /// What Box's developer console hands out with a new key pair.
    var boxAppSettings: JSON {
        [
            "boxAppSettings": [
                "clientID": .string(boxClients[0].id), "clientSecret": .string(boxClients[0].secret),
                "appAuth": [
                    "publicKeyID": .string(BoxKeyPair.keyID), "privateKey": .string(BoxKeyPair.privateKey + "\n"),
                    "passphrase": .string(BoxKeyPair.passphrase),
                ],
            ],
            "enterpriseID": .string(boxEnterprise),
        ]
    }
}
