package import GatewayHTTP

/// Private keys that protect nothing, in PEM without encryption: what tests sign with.
package enum SampleKeys {
    /// 2048 bits.
    package static let rsa = """
        -----BEGIN RSA PRIVATE KEY-----
        MIIEowIBAAKCAQEAt244CZip50bshVtqDCumlBm84Zy1egql6tCbgmMegcJ934Kf
        jIVXd//TRSGlMAw8k+GnFMF9WXq99ttM7Q5YPdo0WS8zBJxBFk66zqqLj5uojBRm
        88YQoYp8e1IYxeSso72hUyaxqfDr1ISExdyVbIG6ABg+G46mgBuv8tz8dX144Sbk
        9uc5OXtTlQrAfN0FpHMxQSRo97XQMJmM0DygJUqpDmRtznrd8A3ftjBUu3qmvCKx
        XRcN0aVhSs0vJs4Jl0+E73/neFDD5DF9kSeXt4cpfovx4i2G3Smlvh//A45E4WCA
        7fu2sIoM3xAFQIp4wLwDlDXjOdWQEioKgp0VUQIDAQABAoIBADVBe2SR3dZnmZkY
        UuBIthrupA+u02Ok/sn/mf7Pr1ZGNQx1HMSMHDqbXGgIXjDmhJn83GkiyjV19Pxc
        bGexD/6ZQTSZhwryINWMsyD4k/90VomhDMj++uojzoNxcP7XpyX9Ev8Uz2VDLP0t
        Im1d30Y7HdkUMMgIcR/lqf5tmaC0eNM6NyB32MsnyDciuFrG4w1KAwkf5xEoLRF9
        eWkOzoCk88dvPfzbl56ol7AX5WaSSvz2Tg+E58ltyRLCL/+IPdqzCtM32B+Nw05S
        MnOk1a3i9WLz74toIVxSqLaHrl5TjwX6efwcD1Ldv2tZCwTCq9fajPKkjo4THN0R
        NNE4vH8CgYEA2tqx7TUNK8gvOeETXkZGKVaafZ+TGgQyerSC9PLIzUu8qbeXBI76
        KFd5JR6dvoEi1dc6kAe3aZB98oO5yt+z5i4Mi+UzIloi4u+GuCAh6k6028Osq3f3
        Ife9M/YYEv5iWRMwNItd4ncRNXpM0k10bc+UbN7dZ0I1ALQpcbGxSH8CgYEA1pBZ
        O+FSTzhdYJnfbbW8LZlKRWKu9zO6CSSuscVMmNlw4HaTAC7Ko/soOQTQHO6Q+bQ+
        466TUmUD6Cd6d7rFfiCCZUhXeZZaj+LhbOGcIahX/NufQoyGbENTtxMiPxmP+bJH
        JOVdK0EKAHKl0tQeYgmaNTJGT8njKMGYn9VcOi8CgYEAhsE75yPQTVIAijHlPBon
        H1L84zb7W3yUHGvDatGHBKmKrDGn4h2rOGXL6Sg11tQqv+K7Y23s6CoY8tda8ejW
        G3flL8pbtt4rNvJnUD4ww9XclKiiTB4c5CRnsnPoFOHfaptfBit+DnBj/zqjzKX2
        d5rl+DctumPQwPMtxZy03T8CgYA3dDM74K5PPzgTAXHXfwLVniqt6CVkSoAoYMyt
        sVpsnrYnrT2s7Gr/Gqh4pB/NenMJtmYSnkoBH450788dJq5oPKq21o2VJSDe0zqD
        04Nwx3uGJJTytDMBxBzc0hslx8uIM2VjycvcpACbwQXOiXgYynaKjSXS9VC6dd6m
        YJRnjQKBgHLkGLCLA9vBaeAmdtPdJ2My8V8URSeoxg3JG9lhEdLE6GbTaJR/kaWM
        JYMJmTh3LHCtOF47JGTeKCIPCcrg+2ScWwpGDyMbw+t7/3tbF3HViVOG5R5RaTNs
        5uoyIW0cje/z3gooeS2Rf94jx5wrgkEUHPkX1bswOuX+jXWCHdXl
        -----END RSA PRIVATE KEY-----
        """

    /// Too short for RS256.
    package static let rsa1024 = """
        -----BEGIN RSA PRIVATE KEY-----
        MIICXgIBAAKBgQDWzNyR5mBcU1JhKdw+t7+3pDvTvs0Ib29IOgJ+LKq+PPh7yMhu
        K7/+mTqutf3VvIBXFNBz3QCnFX1hPAX1QzdZnL4y+m/OR4bGhfoU2qsC1yVNBvxC
        vNF0Z2LhoB+BWsAUTreCwhKEMmBFtAx32m3yzquwmr8JybSO49ehSQazJwIDAQAB
        AoGBAIMYWO36yojOmZKPd8oXXzz3UUQ0SPKDAEn2jZrwK+0bTRRPQHRs4yrB3hzP
        GfKerz12iJqOIV3YMcNsXL6JnXdG7q2cuyBMxr4mV64+CP/L09WuQKeExJkvjvBP
        iy1HWojB8/8pLP5LFeE1FsxY6SNmLSuADE/M0+ZxisE/nDSRAkEA+fLpyWrxFzNE
        IaSkHIDhgFAT1UQLeDGbHtIjQWVIW4IBUF0zf+kCFs25KjasYGIrZvv3LoB6WKDL
        2ID4dC3dvQJBANwAHFQ6lOq/gJ5VpDdNSCiCfvuVYwY7vDmZxNgUrfP97fIFW4BL
        o1z+0+VSPwrz2kCAAW5ygZwW2fySW0utyLMCQQDlHCXyS8Wsl4CHOix4OCb7/+r+
        HP5KcWYYLVTFt/pIbvWXXac8QzB4CKEHMdB2FOZl4uZjyL7dCJ9x2F5l2DkdAkAs
        4NTmlcC1FnWtVvkV0u0KXnx64+F8bwkZkvWlwqotoLo+abtds5BSsyUUna+Ak3gN
        Ok+QcUlhRwQW0uBO0tejAkEAwpBbk+1aNsNyK9Q8J72Fle/2FCaBy4gzB+qQhTzZ
        IFi5cN9HsY0ayYuKUNoXTMBIrztsODCMBb7s1EMZ4ON8pQ==
        -----END RSA PRIVATE KEY-----
        """

    package static let p256 = """
        -----BEGIN EC PRIVATE KEY-----
        MHcCAQEEIAviWa6FWQsxkJ/a9dWd6Siv8wzo+AGCwiHiMVlyqQwKoAoGCCqGSM49
        AwEHoUQDQgAE6zyUFZgTApzjVs9zsFxJGuKWjT2wxkpXqunohO+xMYDdV8sHqwir
        uHR5wJC7aqh/hogfvq2V2VdmwjGG0QT9hQ==
        -----END EC PRIVATE KEY-----
        """

    package static let p384 = """
        -----BEGIN EC PRIVATE KEY-----
        MIGkAgEBBDA8/214t5Ka4ukFgYDNV0c2fI3L9ZKiTek5Tx5Qz86A0FOUwmgmqVCf
        R+9q0jfhqI6gBwYFK4EEACKhZANiAARxC+WUwvdjsGT/R2bh4qYDeegqnpt8pHIN
        O0CRpmCKYxTdSnyvnqNA64fjXGIzWs44em8vzGQ9CsmIQ00+Q0mJgTtOmrs6GUgp
        Vb9wBmq4ctQd8QGE/KP2Gs6FdiA/t1I=
        -----END EC PRIVATE KEY-----
        """

    package static let p521 = """
        -----BEGIN EC PRIVATE KEY-----
        MIHcAgEBBEIBXeNz/07E9+0cETPDI0TZYLIHIbU09xJlHJmRVjZllWgEecAZl1r9
        PM7NnxR0J5JyNfnnd7y9mugh2clOFQv1joSgBwYFK4EEACOhgYkDgYYABAAq2oz4
        gNaRJfJUsaukIe5TipwjO1TUYA2JW6fNgV7oXCiFgOaRk1y1N0vPBkLv4rEKqYF6
        PMDMkXaiNL75D9H0nwBQhUckWCbhLzuf6jbtKLIEnDFqrzrXmb0Xw3QPbD60V43x
        WvisI98JV+85G9LRuFrS1O/tdP/G8T19+ptHFs3Qhw==
        -----END EC PRIVATE KEY-----
        """

    /// Opens what is not encrypted, and with the passphrase `sesame` what only says that it is.
    package static func open(_ pem: Secret, passphrase: Secret?) -> PrivateKeyDER? {
        pem.withValue { text in
            guard !text.contains("ENCRYPTED") || passphrase == Secret("sesame") else { return nil }
            let lines = text.split(separator: "\n").filter { !$0.hasPrefix("-") && !$0.contains(":") }
            let base64 = lines.joined().replacing("+", with: "-").replacing("/", with: "_")
            return Base64.decodeURL(base64).map { PrivateKeyDER($0) }
        }
    }

    /// The same key as if it were encrypted, for sources that call ``open(_:passphrase:)``.
    package static let encrypted = rsa.replacing("RSA PRIVATE KEY", with: "ENCRYPTED PRIVATE KEY")
}
