import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayApp

@Suite("Private keys", .timeLimit(.minutes(5)))
struct PrivateKeyOpenerTests {
    private let source = SystemSecretSource(environment: [:])

    private func open(_ pem: String, _ passphrase: String? = nil) -> PrivateKeyDER? {
        source.openPrivateKey(Secret(pem), passphrase: passphrase.map { Secret($0) })
    }

    @Test(arguments: [
        EncryptedKeys.pkcs8AES256, EncryptedKeys.pkcs8DES3, EncryptedKeys.pkcs8SHA1DES3, EncryptedKeys.pkcs1DES3,
        EncryptedKeys.pkcs1AES256,
    ])
    func everyFormOfAnEncryptedKeyHoldsTheSameKey(_ pem: String) throws {
        let key = try #require(open(pem, "sesame"))
        #expect(key == SampleKeys.open(Secret(SampleKeys.rsa), passphrase: nil))
        #expect(open(pem, "wrong") == nil)
        // And it does not ask the terminal.
        #expect(open(pem) == nil)
    }

    @Test(arguments: [SampleKeys.rsa, EncryptedKeys.pkcs8])
    func anOpenKeyNeedsNoPassphrase(_ pem: String) throws {
        let key = try #require(open(pem))
        #expect(key == SampleKeys.open(Secret(SampleKeys.rsa), passphrase: nil))
        #expect(open(pem, "needless") == key)
    }

    @Test func keysOfEllipticCurvesAreOpenedToo() throws {
        let key = try #require(open(EncryptedKeys.sec1AES128, "sesame"))
        #expect(key == open(SampleKeys.p256))
    }

    @Test(arguments: ["", "hello", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
    func anythingElseIsNoKey(_ pem: String) {
        #expect(open(pem) == nil)
        #expect(open(pem, "sesame") == nil)
    }

    @Test func aKeyDoesNotPrintItself() throws {
        let key = try #require(open(SampleKeys.rsa))
        #expect("\(key)" == "PrivateKeyDER(text: ‹secret›)")
    }
}

/// ``SampleKeys/rsa`` (and `p256`) as programs write it; the passphrase is `sesame`.
private enum EncryptedKeys {
    /// `openssl pkcs8 -topk8 -nocrypt`.
    static let pkcs8 = """
        -----BEGIN PRIVATE KEY-----
        MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC3bjgJmKnnRuyF
        W2oMK6aUGbzhnLV6CqXq0JuCYx6Bwn3fgp+MhVd3/9NFIaUwDDyT4acUwX1Zer32
        20ztDlg92jRZLzMEnEEWTrrOqouPm6iMFGbzxhChinx7UhjF5KyjvaFTJrGp8OvU
        hITF3JVsgboAGD4bjqaAG6/y3Px1fXjhJuT25zk5e1OVCsB83QWkczFBJGj3tdAw
        mYzQPKAlSqkOZG3Oet3wDd+2MFS7eqa8IrFdFw3RpWFKzS8mzgmXT4Tvf+d4UMPk
        MX2RJ5e3hyl+i/HiLYbdKaW+H/8DjkThYIDt+7awigzfEAVAinjAvAOUNeM51ZAS
        KgqCnRVRAgMBAAECggEANUF7ZJHd1meZmRhS4Ei2Gu6kD67TY6T+yf+Z/s+vVkY1
        DHUcxIwcOptcaAheMOaEmfzcaSLKNXX0/FxsZ7EP/plBNJmHCvIg1YyzIPiT/3RW
        iaEMyP766iPOg3Fw/tenJf0S/xTPZUMs/S0ibV3fRjsd2RQwyAhxH+Wp/m2ZoLR4
        0zo3IHfYyyfINyK4WsbjDUoDCR/nESgtEX15aQ7OgKTzx289/NuXnqiXsBflZpJK
        /PZOD4TnyW3JEsIv/4g92rMK0zfYH43DTlIyc6TVreL1YvPvi2ghXFKotoeuXlOP
        Bfp5/BwPUt2/a1kLBMKr19qM8qSOjhMc3RE00Ti8fwKBgQDa2rHtNQ0ryC854RNe
        RkYpVpp9n5MaBDJ6tIL08sjNS7ypt5cEjvooV3klHp2+gSLV1zqQB7dpkH3yg7nK
        37PmLgyL5TMiWiLi74a4ICHqTrTbw6yrd/ch970z9hgS/mJZEzA0i13idxE1ekzS
        TXRtz5Rs3t1nQjUAtClxsbFIfwKBgQDWkFk74VJPOF1gmd9ttbwtmUpFYq73M7oJ
        JK6xxUyY2XDgdpMALsqj+yg5BNAc7pD5tD7jrpNSZQPoJ3p3usV+IIJlSFd5llqP
        4uFs4ZwhqFf8259CjIZsQ1O3EyI/GY/5skck5V0rQQoAcqXS1B5iCZo1MkZPyeMo
        wZif1Vw6LwKBgQCGwTvnI9BNUgCKMeU8GicfUvzjNvtbfJQca8Nq0YcEqYqsMafi
        Has4ZcvpKDXW1Cq/4rtjbezoKhjy11rx6NYbd+Uvylu23is28mdQPjDD1dyUqKJM
        HhzkJGeyc+gU4d9qm18GK34OcGP/OqPMpfZ3muX4Ny26Y9DA8y3FnLTdPwKBgDd0
        Mzvgrk8/OBMBcdd/AtWeKq3oJWRKgChgzK2xWmyetietPazsav8aqHikH816cwm2
        ZhKeSgEfjnTvzx0mrmg8qrbWjZUlIN7TOoPTg3DHe4YklPK0MwHEHNzSGyXHy4gz
        ZWPJy9ykAJvBBc6JeBjKdoqNJdL1ULp13qZglGeNAoGAcuQYsIsD28Fp4CZ2090n
        YzLxXxRFJ6jGDckb2WER0sToZtNolH+RpYwlgwmZOHcscK04XjskZN4oIg8JyuD7
        ZJxbCkYPIxvD63v/e1sXcdWJU4blHlFpM2zm6jIhbRyN7/PeCih5LZF/3iPHnCuC
        QRQc+RfVuzA65f6NdYId1eU=
        -----END PRIVATE KEY-----
        """

    /// `openssl pkcs8 -topk8 -v2 aes-256-cbc`.
    static let pkcs8AES256 = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIIFLTBXBgkqhkiG9w0BBQ0wSjApBgkqhkiG9w0BBQwwHAQI8QX1VvwchacCAggA
        MAwGCCqGSIb3DQIJBQAwHQYJYIZIAWUDBAEqBBC9J5jWAqADVh4NO1TIy23tBIIE
        0OrnyeteGi1e4801wo3TLwas/mYlHG+XIY0zTa1Hz8ZsNPWhF4lzuaBN9/H37q0v
        D8BbtmmdKSjt9UyfixVFU+JXSOg4aosa8c1NRqkpAj5q+eZ/Azeyn7Z/zUQy1wW+
        VwJuoBnYixDG+YgZbjX3QC6+BZXmEvE7SC+D35HYYLHmriAgOBlv97CfctPKce+z
        7JTIa/pfn3PpfqVvdwMBXRHIB9DsVfazdpx6I+DyRxEbILNB9tpDSztC/96cE22z
        UwZFNKFxZKGYwfEG5oNBKk6lpSoPiyr1hNHbhQRsN11mSn/fKcRkydR9ofw8d39c
        3ZzcODJyqwa5CG0Y4ELFXQqSLO5usgMx/2V6BISercEktjy1mR6OZorFHG4FYVmY
        lFG0L4pPccptU/fwZY5e838Fj0480q0eUzlVBN+Zi9OnjL9eBUTm8voPYT0AIq62
        +EAolzUcX80Q8ibScahrOGGQlVGRv0ZBWESouodii9WSzC57FSTmSqdEUs5XOYON
        mgVJFM0YhBxhnpM81JPvrJpMdPedXmOOOXEyDobGMgZ15HMAJJoRBDmyXSsYxAoP
        VPmXPP5p901iMFqG+0RhD3BAj766eFOfaVZ+WO42xbMiFddkuYO7vpgCP/9F8f6e
        xGlUW44JMD4SkidRgMN9dPYuJlCCa/CZbI7/08bz5S+PQkO6EnQ/caYu8WN8FIy4
        Z53VoShNBhuYwomjkT4kK3xPoIjEpTY3p6PiB4boa4kvKDY3TV8XmMhK5ayYc1wx
        PN/Rcb5VuBtpCcio0SP8VJYJzuAn64qMLvU2kysM7wPMKTyBe+n/jfuFJuJ3QKSY
        KBVBn3e9a41uz8JEsuj1PTbcbEu4FgPzY6icArLNgKMY9MxG+7YX8Qk89FsuKV8O
        zZ8c++ao3ODaTxyImImb4uSWuExSqAYRoLcWYz3A9RtqZC4RrcjTXQuc5B4lrCvT
        Ui+YLO1mO2mRNE1L3dlqVfGncUF4RGUL5/DdPYulRjzet1uVF4GXcuJ1AG+xb9Nm
        BzF7l8juZ+t99IVMP+a6/I6IKxkX19q/TWCnBON5vUcoU/PPfz75maEceUf8k9zP
        3Q644+P6O7K9LDfGkL3pS0NtnjwaS1Dtr1eMXVlj76H5JQh7PyWuLS8MyycAuyXR
        j8tK9aekpg/Od6B8HI+48RH9RPWY8qtcU6Gy5phwTPBZzmF7nsyJaJK3I1B2E1ei
        AaiQ1inShDxw2B/Wny0SUyeUXs+y/punHKFQMS1u1yY4Ijiz/ePMBRxwY3PRNkCE
        W6b8tvSnXywh6QNyMcVLO19XFc+nQaoN+C0qL+CowzFPdI/8+ae1d500RVatmpfB
        IZGj3g8vBR79BO7CinRRC+jEvsue5Uzgil2huL89dHuy2JncYHPLmyKf71QHNYH/
        EK7Rj0hI7JOIxNWwXdblfzPhIXBQV+zm2W7knSEjBB8j/aqyA6j25WHZU4uuNoUq
        y+E/fV9M/weDMw6NjOsp0EMnCyMbe+9XPVmjl0qruPiTdlomzA9zqR50oWTwzieW
        UoxC/UN70aevDGPD5v4IB9b3GQRfAr9h4KKTgc3FoApe29e0+xGEx1+YoJ19crIh
        JV734s/7RygceQVGTF97AcAomBbrsBggoI1xrsOcjIwT
        -----END ENCRYPTED PRIVATE KEY-----
        """

    /// `openssl pkcs8 -topk8 -v2 des3`, as the Box developer console does.
    static let pkcs8DES3 = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIIFHDBOBgkqhkiG9w0BBQ0wQTApBgkqhkiG9w0BBQwwHAQIJwykLwj0DUMCAggA
        MAwGCCqGSIb3DQIJBQAwFAYIKoZIhvcNAwcECFec/u3yBSCVBIIEyClkUnG4vAgl
        icJ2yxfirK6Ho5fwNIx0Ep4VaRlvDbF0dQl4UzTtXFf8V9vAc9/hf9dcWZRZpijg
        Xqr5jMWhw5+o8qHArtfToSLyza7wPc1JTmMcixICKUkeADcD4/8aHq4AkDiT89bn
        SzS+raePHffD13GUl3RstrowNjA9yuawUYP6LO2uDIFjWIHjWXv1aie+G4RoyLXX
        6CjXv7puZFzT6a35dKnnvO9u14vT/HyfkdkQ5r760FfdhVXewkgpxGuQK4Kstf0X
        OSkU8VT9lQHDsWBeDJjPAuj59DLYU6JLiyq74HsHKWaHm+vHiJ65k31GrQ9PQzV0
        98nb/0kKRFIod09/s8gOGi3l1GyvtAHW/dNPRJRaPWbDK3mP+ZqiIH9CVd/ItZIq
        Yjxwr/sTVZCYElHq5tcqyr0oN14KGlbFcVOA2WNJUKwaV+wVipUFpBEKf6qm2E4o
        cxsqlDB6IdAW+2+crnasA2ONzdZgYAJCCTLqLjQxgccZ7gL0NGmX1517cmnhgYKS
        RWaJ4MZDyBDrBH3NkCq3SpFMtsT4aXPQlJaCBRQktm2thgkrlKZdEP8RWGgrga38
        NzHjvi+fIaixnJGSI3easXgdxhd/nj3qeiyPrDK3pSgyFPWZ9X7xzdYgov8uirLN
        Chbwhs0Z1+WsaZ5gE1iQfzyyMBLIZhrKjz0EglzW354Dyk2gylD86NwJoDS0X65a
        S6nHogQhJTdY0e8AuZKGZFC6DDMc4bhQFH1gk1SWHfzIGiS6ciG4U8CVZW7RfmOc
        +V7XJKsYosTa4c94LBhF1sbkFDF4S4vtSRiXXRditsdYUokY6xcfh2/YekHNibOo
        kdCG9uySi4RTOnNUMufBny4lFWKWCpYDnIIz5fVdwXNcP0he9Wq5Ti8a/540ebC3
        49vxGCUMolUgierip5f3+UHD0imWxL1DZwfc4e6LlBpE6BQ3PtLuZmevd7pCupw3
        yZJMRv/ATth+ASoaTUHmordst3V2qPn156UwMAd+x00wMkNdMjhvRmAeumEWomAC
        C3SAnPcFfTHyxwKMDD1HIkwWMrgaLTa2NVXt3ZCBw4bqYeDj31HKwZvFCSPBjqKc
        WXftKn27okdmGyqVSNNsGBdL1HPswSCCCFCcz4cFsFQXRZE7gsCm3sun7Vv50muZ
        GOSPqlFTvwykfH5ZQC/ERxr5dms0clE9p4L4cdQX9tldrupGamLxzj5TV6tIOCki
        hZmSKU0jyZVGYunjyYx4FZgbCqJgd+TwkB1Dcqluj1gPhFCtjmSUcHSgGhyhDooF
        QxDLqSsc/zSLSBwrUids9mz3J5Jsz+HkmHn2TKdlyRze39G+ANOP+KlBGpz+SzDE
        TSn7V6QUYO13rqYpEcl4SSKguhSz/wKmT6rpQBk/z/skW4hO30T39OJJRgA1nRiJ
        UUavVvnaoZuClnv9wxfmPqkk/h7mAr90Sz/Qa3iZJkQq5eibm1kKxLN1YINPcJjO
        BAmHXpVime5b423H34MqVJhxrvqcB6h5EhS7wirnC+jTylUHu+dX+yakOv99WMR1
        9rHb9GLpivZCZjeanl6LITb7HEgiYHBXFVnigWC0H4PopJmRtdAoe13Y0iJlBDiw
        m3MixpTHyoqzGLTdkR7WxQ==
        -----END ENCRYPTED PRIVATE KEY-----
        """

    /// `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES`.
    static let pkcs8SHA1DES3 = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIIE6jAcBgoqhkiG9w0BDAEDMA4ECI3Sk5+jKLj1AgIIAASCBMiZBcJFjf7f1BfC
        8sHlVEwSHqYPVnXPjR4JXt01dmf7I+aUPigRz4Q0ibmET8hjhx38J0cDRucsolqJ
        KwYae8LoQDB6VM2Y6nCXVpOWFcHndO1lvRVpszXo+Kq7ac0hRZcpaQFU4UiKIIQk
        oZzEKfORCX8DGgQNI4QrCfuyjfkMBjR2d2QH11OHSq1IJdROQLagPI6GAbOSX3mK
        GFsWCvc6drzfvveo2AMmhSdlT8CCKbkhWIVokq61qN1deMNzInX8i2YTF4O91fmq
        7J0JK6hrkElhq1SugyYbJmevJliNAOyfX66MfuPzUP7YfPqmGfsKroU/UFRgCkLC
        c6yfdcY0JyU6gC8ZRvBl31a4skRETUW+vw9cniV1mGS77ltShZ4urt1J8ZddIEQ6
        7foIfM72r6CHX8Am7UxbCieYu8Aw6Eb73HwlcThQEXfuhdOxajLUTwO38DDW1Dt5
        lzlChfHI8WCMC7/xeAtzE0kZJlVppvLAJ98C94z6k2K5MUOvQlkOtO0wFP6UOV5j
        MxtwxnPybtMdTg7mtEF7nGz3YyVL2R44PvHEJ2kl2SvmJFeNvymdrDBVJgTOpPqO
        lhZamv2ZafcVyTTQ8f1SYQrS6k/mVAIxnY73f7VFWfDboo7X5PmTWXq+tWSEuXhW
        Q9ZFz+tvRuXroZevOgfL8nXtrElmivw2g2marTNBl9nLJiBlaTFnK/fyIVcacJa8
        LJVyCVWHaVYOuxw1aT8GaGsEYG7lZilNYHqK+CKnilkBc5oTq9cgY6vYL9By8t3F
        0id1FDnEo1zo0+QOmQZs+ltdP3pO3oTC4Wgd/AHwPemG74xJsIJ3LSR1dcz3Hr2E
        Pj0eC2EQ/9fbE42s2c8HJuk6dcN/gNcOyaHbrZwRuljY2PvPa82UApiTkD6xEiO9
        8GQRijHqSOSrHu3lqEpoEoGYpsi573c1imQt3Puh8s0whNdOZUeCuWd+YV3rIxFy
        hIXrDj7+zF3MLcAPND1bba7mdz8i/XrVfwyQrsxfgeqga+497Dtj5W9B5RQ+Sqe8
        fjqDZkaSHt9mbva6NQ/lF6Qt2PXE39KM784x1tjE/ABdNBAanOAeBm3AEqmRDX+4
        s0LlrzsPevBoWM1KmodqmooSy6LJgV92yP6s/hG2UUg1fT7XF9i0tCnB603IStdR
        yenR5Dn72/5b09DxvF+5/j9lXXH78b64CDgOejeLGVOWtCZyqGJOrv7Uow35DP7k
        Bby5ng9ZI22OdkCvX9LieDxNYHJFH7ahEiueazbSz8Nt4b4JFlaQQE7vT8KGDq+0
        +vUj6nxDO8nREgs/9w3PlEF/2yee0O6kyezWfZ6DVEmVBeokzmFGqiZOjMd1jbdV
        RcRI+ELFi0vA/RpE1hj/R8pANIm5ewWKAR6d/CFzlFQTW12zZZ1bNFT/mLe6Ahuq
        d/1e7Z/npOWXz1W0nqrM+DPY3JG8P8IYOSuyUV7/wIFHySSb1rcMq3tJUeExc7Ev
        5jvS/a8WtTM77GesCVtLljVve/0jigqi//ewWV1BWt53tF5c+p8sogUonaL7CElq
        e8PhLROjspgHH9t52SH1IC+vNTyZKWromJn30D5tdA4a2R+5RYwmo0FKNSBGRPv+
        g1AGbQuiMzNuB0J+ZX0=
        -----END ENCRYPTED PRIVATE KEY-----
        """

    /// `openssl genrsa -des3` of OpenSSL 1.
    static let pkcs1DES3 = """
        -----BEGIN RSA PRIVATE KEY-----
        Proc-Type: 4,ENCRYPTED
        DEK-Info: DES-EDE3-CBC,6EEE404337DD55F6

        IxgboqL3zXOQQRR55QD38rxQ7UIad9x7i+F1VVk9q819HXty04LAUBnxPZsNi76L
        J5xsXMkXqRrn5olTHRORP7aMK3giD9jELnNXbZBbTgdj4XyM8KJOgU7otP3V5zTz
        YKX1XiHG0dU+1t1qnETQv6u4WqgZzBwTGg7yZzYJyj7q0vfWWGXkoggTiYB+Escn
        XLQShqbdwNw6lzgDtiaG9z7Mrmevqynescuuj/O3E+9ZSWJ/1CKtcruVIG8GJMel
        xRd0UPx9xD65UQg9fTlVFyeazbMUSwhK7olmE25wd8BHTxTLh5K+Xd4dME2KD7M0
        fiyLe9F3Bx7CLCcIUQmj+AItlBmHSFiReujw8/XJQG/Tsd8J8n0bZuEh/jNZjKK/
        Jr8XM9SNFSqp8i1R/L0USGZfzu5NIIu7GbnJB/ehUo6kdbQdu5fzKBs3JqRKftBz
        Es3laY4m6Qg5/MbCQ6I2JTOHeAdRSACOFrxpvEeT2yEDsk+ZkP/D/yjk7Hp5JvY0
        1dFxPKzqwruRQ0WyiQKfrDMMbep5xBIaOXlF6dDROSltagGJg+zRrSbEQsEyqp/m
        KlkdxIv0Zekdy80K+wd9/KSXgmb8ivTJVfEZvhnjlMXllXjNOfCheN5JGflnJOhW
        seWMI4p9lkJF8fm7YtVMjsI2PQMqcnRCEWlmvUajSgYplmy0TS+JbvTrjQZ6OUf2
        zNlhEvLoT0jYsqQ2cbVM5vMJ3wtrE7Nfd8NwYz9T4BQHYk7B2CreIsJeoVK3uRO0
        ynMKsjR8Kx445z0QIc2aVDISSnfMaguqk0EvSwIkaX9aa1fu21qcWTs9WWRvdpQ8
        DRbV5bfRR57hPXmlCNdtF/YjLTk8Ll4phAyff3RTMzh+Nqy4Sy6pJkvyjphys+Zt
        IfBGcMbj6hMt9OKFjdZWX02dkoC4FXVu9MgX/+Jk2fnkDr7undWr2E+0VdiZkJDg
        8p+j7buqiMq4Z3wfMFx58gwzBFC85PVlAUEC8vc5/Ee0RBj69/FYma+0lyM+9pfb
        PCp7ma1JFpo1DqKT/wyoAFpbGoLSulCvIeiHuWrT8+4LkkjsuvxbZ33pFmjgo/VD
        T3lP6lpojQyD/VmtUyitY76DoPyfN1f3zsmLE0bPw7MovWPTxKh/fTRe7ZTOT0bv
        BAvAXRG50U/33nO8c8UzcWUaMzYNv89ux6dlutz7a+ZdAxCAYx0s6cj/sYQxuxCY
        kVVF50u1ydRRzBwyZ82LuBcOSBcWuFeFU0xzgvs5R1AuTCngyTIbnF2TW9AiVHAy
        +qQJxqeqJZQSF77klxsM2M2mcE+Pd7M+wM55HlhufyhofO9BXZxi1Zp1NwJz6D97
        8IPU3RUgEguzzyOpcg8HGXfwjrhUV84xVbjHTc4cMTICrYYFSPckgUjGo8Au6LaZ
        Ml+82X74VxgvSkpyf6cPU6BWzBjqgkbMpS6BC/jwyC/M3H1Gl/JGJ/9vco73XnF2
        SbFVBvNNJwLSnxH3qujWbvdAel4FK/Ld2+gApqh+a//qrK/a06XXvbTulsAwf2YA
        fNyEmG6DssbXjBCAnP90B6q90xohJRJSFjRHCF/YIyzy93O109Atzg==
        -----END RSA PRIVATE KEY-----
        """

    /// `openssl rsa -traditional -aes256`.
    static let pkcs1AES256 = """
        -----BEGIN RSA PRIVATE KEY-----
        Proc-Type: 4,ENCRYPTED
        DEK-Info: AES-256-CBC,87CB59C995ABAB24B074C7FFBCEED41E

        xsPERK/HmHbj13shXPxw0a7BpiYQYxciNIaaCFrwfXU5Fg9xIp/0MEedVF+XF+C4
        sIXHhY7yYXjqTjSs6QiJp4vlZozhsKy50op6Ahit/Hez5M1CVS+DA6xGMfO6DNTn
        i6+G8l4mDHfZkBxQCXzxQMl2zrcGMrUj5+rEFee448irkXHOlFcZFdoBLi2ZGnra
        D5r+jGRxhZBMJ9IFy+eMELqPWZbylUHVTmKoYr3I4FtDUR0BJC4eVJ89xFPwYCFe
        yLvOJWl7/4sU5Osy8gLI7/shnSlXYvyPq0fJKp3v0b0lA7HAxwi+3KPcrG/1ek2L
        u/ZslMAtACUfWChyuyNQCBytJchbtEal6V6jmtf71xi3NuKuo4JvxvyfuzKLdHYi
        m8nR1yjUstQyFZ8EH/PPWPjoyZlC2l0VXNnM57LB6Nm1jtA70uXwHhOIIwHE3+GH
        kU+Qaeq+mm3Mmou2y5Di05ogAV28oH172Jg7YMhOySw9+6zudtgC1y+yPDKQQ2VB
        zRTpql6Qe28QafdU6RJgBHxPmrsRezaWeRKrdGKXLeSM6d8RgmkM+jEP4mH2tD2N
        qqFQvD7d9+QM4nCEcpOon9Zq2kS/dwSoFdn85ym9NfAXfXbiS3r5rcfgQDiFGqVE
        xdB5Zt/sD9F6qj0q3XkIMD8p0TTo2UbtjBgPHjuCRZBwRUddXY3bUUyPjPZnciVL
        cWv+Qr8wav75bs7jZ8zem/ELNc1CzDz2YjMqNloxQZvYhL6dRg0AzM/L03hMjDvH
        y+f60GO9vt8Zk0iS2OoI3X22SOqKxMZ/7CDZmfeARdmqeg1ChD7kENi7LPezEIU1
        xAhiXp5MJpbnDMsL/acJhcsTaTtSE+KPoNMobMqcyen66qkpExve8jVnU5XqotUX
        /Ei7o1G5IWuIKf0kdFy+ZXSkc1uQw3DdGoNSlcWQVGSNYAiaDVnNL3Z7Bubkfbs8
        rqyMhJwIri7Nwxo55TJRHAKXQJ0aHycC5khcro9ht0JVs6QETi2KBcBCAsesJvQs
        FynGKh3UNFxJAsJ5UwEzrfwYvVkRw0ttKAMXHglujPkS1GFKNNliST6LrEXZGV5t
        OharIEKvr+gfVsqrVC9u5boZbkRGFi56xD/4CtZ26YQk6+mfduaC61fIcP6Ulv76
        EyB3JRlS4Tek5cLw6c+P2SPFtGrdVETI/YP6/kpQCUXjwRxK+n9Tqniw0qWGtq20
        KGJizNIFmj8K37nOBlTlF317CAIpexvakCJwRk+bH2oEp2Bm0kFmEHvTVtUWmTbi
        6RpQ8XpTwTD84KZro9nkAVp6f1vELWhz1VdWvzgHTL8vJPbJNY4koRGmf0BZzWPh
        k3HGmW2TikFNMOpHCLl4NmqckthdQQaWiEIMYJ1oJ57AU7eOII1GWNx8Qsp/uEPe
        C3AmFrBt4iJmU0f8KQuctgJQjHTfb/DDVHFBwfSMitQVKye9hGV7R9+36rKzqEb9
        ze+9RxHnMXRtIt9Q2gBpu5srjDu6R7JzpQSnE2/wqi8cwaXF3xiSLPzFp/JHSRx3
        hGl+EpVO7uJZnhdPdaq6zhfJbBQYO9ebu+SkspW3eZTRNdRl7mXf5PQ/m5l8vB6t
        -----END RSA PRIVATE KEY-----
        """

    /// `openssl ec -aes128`.
    static let sec1AES128 = """
        -----BEGIN EC PRIVATE KEY-----
        Proc-Type: 4,ENCRYPTED
        DEK-Info: AES-128-CBC,D600810D8DC32F5D6ADE0AD4FBF1A4B5

        SCrMxz6ToR9nkYNfN2kHTWuRJYu3pUxptROhE0yXTEYnAFpepy6dUe6O4HgpaDFa
        rZHmcOWPRGNeZIb359cuqnkf0ZcpytN+52uFryOD+E5cHrfmyH7qauWJ4wTrmggh
        zp8h1XwswXwLAyQadgHipI8whQszSqOhatW6dRdlsDo=
        -----END EC PRIVATE KEY-----
        """
}
