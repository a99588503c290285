/* material.h -- keys for tests, as a JWK writes their numbers.
 *
 * All were made for this file, and their private halves are gone.
 */
#ifndef SL_TEST_MATERIAL_H
#define SL_TEST_MATERIAL_H

/* 2048 bits. */
#define RSA_N                                                                  \
    "ukc-g7uyoaqz6myiDyR4zneoU8sBIhYAUDMtnRa9fVjRnuRz3b_UpDU2nj3W"             \
    "hhmroh_QKa5Lo9p1vQB8r9tFYPjlfI94ihEN3qqv47Mhgvkbj5v3EhruYCw9"             \
    "vOyMZAnot5QkrsM94-gx2FtqV8i4U1jZb0TW5PZfSvD5cceJrEcvclwpEvNU"             \
    "kAE9yROLMXJ9-bgB23vfuEUaoNp9ijqgzaRD7ljcxFp8PVCQIsEgR-FRXD4z"             \
    "rFUdm9L9VAWBadAsQRuivRFLndu6mBHgpUVAkFUsbdjG_XyYOCD3k5aqRVMW"             \
    "-Fd9NcSRqYsZA_Vwp9Gz75bJxFjls7rxMtSp2MaFGw"

/* 1024 bits. */
#define SMALL_N                                                                \
    "rp7wsjxKNBZPhjK9BZ4znPoNAg2-Xfm-2p3961TnBG0voSI_IKacZlPcAkH8"             \
    "8IVqTR60UW4t6iUSg5zsF3z1aLjgAKJ3VGGRsfneo7X5--nL3nFymWOPJEum"             \
    "fH_3ez1lcAnyLDtr4oyYA4Vzt1sMpKVmhwJgD76NqmyzVlnBm3U"

/* 2048 bits, a power of 65537 modulo every small prime. */
#define ROCA_N                                                                 \
    "j7rVRS216AJJCknC7XRPyxdDPw2EdTmhvXIJ5vhB0_hvCnIvVrI_d33a9PtI"             \
    "i4Hle13qtew-Ptn5DjibmeiArN29sINw9nxOSm9ZEY44jsNNAIyaWJoD4jvI"             \
    "t2EiUBCbuHuInhBaWPRUp7ssVrg9akx3KYmbb2Bh0kjfUdc7geZsMClA0uj7"             \
    "mDO3I5ZRELFIOK03mrMYwkvQamsGn9oDt7AHvzNKdqj6Wjk1bn6MwI414FkO"             \
    "yQ0jFlhBOKbEAuVSQZe-jVwP3yFXCQnnKAmAVnmtE7p0UT6jhJw355tHj_IY"             \
    "oUjkYLaPnSTfhlilYJz--ZBsVnEBlyzQvkVIdgVnVw"

#define P256_X "DNgVum9FhVGcPv2jW6cCdnfPrIIWEbCkqdlYok1P8-o"
#define P256_Y "DFLcoPHYMifKlrvvsj0HtO6gb2oCQguQGJ_N5_-6V2I"
#define P384_X                                                                 \
    "v9E-bkQFeb9pRay1M4pUizH5qs3fuU0VYQIV8WTtHNFuE0VyyPHzH0MuDPVK"             \
    "IyHF"
#define P384_Y                                                                 \
    "78NJN85VdHv6JZ2UQf5N9L9d-gjdXYGMK9jGcSYKpLq8Hm8AwGQiZVHza_lK"             \
    "0YBu"
#define P521_X                                                                 \
    "ABSgaL6nhksUPMjBreT-Gor5YytLEhIce86WTDqlGDgi9zy5VqA5jzVRbXa0"             \
    "_yqcTcCSvhOHf2dmf-bmTnzFG12p"
#define P521_Y                                                                 \
    "Ab4zZqU4EaC-aKVhTktshSC9SfzFr0PKh6MBGU-PCnnDGAv-sV8keuWajScY"             \
    "ti9zRH8cKqRWLQ1lmHNhudhjY16m"
#define ED25519_X "IWzLIiAQDkXWepVfrpKyyV4bwKPSyHr_W3zME-t8cvg"
#define ED448_X                                                                \
    "dkkSSd4KpLsBvIY16jDhrtB7Rm3xPvVPHyidUI0ZAJ3yMHuM-hdpQvbtVuzT"             \
    "MgfDm9pRhHrJaWgA"

/* 32 and 64 bytes: "0123456789abcdef", over and over. */
#define OCT_32 "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
#define OCT_64                                                                 \
    "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJj"             \
    "ZGVmMDEyMzQ1Njc4OWFiY2RlZg"

#endif
