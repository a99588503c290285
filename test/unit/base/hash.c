/* hash.c -- SipHash-1-3 against OpenSSL.
 *
 * The vectors are OpenSSL 3.0's, for the key 00 01 .. 0f and the texts "",
 * 00, 00 01, and so on up to 63 bytes. Row n was made by
 *
 *     openssl mac -macopt hexkey:000102030405060708090a0b0c0d0e0f \
 *         -macopt size:8 -macopt c-rounds:1 -macopt d-rounds:3 \
 *         -in FILE SIPHASH
 *
 * with FILE holding the first n bytes, and size:16 for the wide ones. They are
 * the bytes in the order in which OpenSSL prints them: little-endian.
 */
#include "base/hash.h"

#include "check.h"

static const char *const narrow[64] = {
    "dcc40f055801acab", "93ca577df39bf4c9", "4dd4c74d029bcb82",
    "fbf7dde7b80af88b", "2883d388605775cf", "673b53492fd5f9de",
    "a7229fc5502b0dc5", "4011b19b987d92d3", "8e9a298d11959036",
    "e43d066cb38ea425", "7f09ff92ee85de79", "52c34df9c118c170",
    "a2d9b457b184a378", "a7ff29120c766f30", "345df9c011a15a60",
    "5699512a6dd820d3", "668b907d1add4fcc", "0cd8db639068f29c",
    "3ee673b49c38fc8f", "1c7d298de59d1ff2", "40e0cca6462fdcc0",
    "44f8452bfeab92b9", "2e8720a39b7bfe7f", "23c1e6da7f0e5a52",
    "8c9c3467b2ae64f4", "79095b702859cd45", "a51399cae3353e3a",
    "353bde4a4ec71da9", "0dd06cef02ed0bfb", "f4e1b14ab43cd988",
    "63e6c543d6110f54", "bcd1218c1fdd7023", "0db6a7166c7b1581",
    "bff98f7ae5b9544d", "3e752a1f78129f75", "916b18bfbea3a1ce",
    "0662a2add308f52c", "5730c3a32d1c10b6", "a1363aae9674f4b3",
    "9283107b54576b62", "3115e4993236d2c1", "44d91a3f92c17c66",
    "258813c8fe4f7065", "a64989c2d180f224", "6b87f8faed1ccac2",
    "9621049ffc4b16c2", "23d6b168939c6ea1", "fd14518b9c16fb49",
    "464c07dff843319f", "b386cc1224affdc6", "8f09520ad149af7e",
    "9a2f299d5513f31c", "121ff4a2dd304ac4", "d01ea74389e9fa36",
    "e6bcf0734cb38f31", "80e9a77036bf7aa2", "756d3c24dbc0bcb4",
    "1315b7fd52d8f823", "088a7da64d5f038f", "48f1e8b7e5d09cd8",
    "ee44a6f7bce6f4f6", "f237180fd89ac5ae", "e094664b15f6b2c3",
    "a8b3bbb76290199d",
};

static const char *const wide[64] = {
    "e77ebcb22788a5befd62db6add303001", "fc6f370460d3eda85e0573cc2b2ff063",
    "75787f090569839b855bc9548c6aea95", "6bc5ccfa1edcf79f4823187712ebd743",
    "0c784e71ac2b285a9f8e92e78fbf2c25", "f328db89345b620c795229a42695843e",
    "dcd03d29f743e7100951b0e83985a6f8", "1084b923f2aae0c3a62f2ec80848ab77",
    "aa12fee1d5e3dab4724f16ab35f9c799", "81ddb8042cf33994f4720e0094137c42",
    "4faa541d5d498e89ba0ea4c387b22fb4", "723b9af3554491dbb1d6633dfc6e0c4e",
    "e53f92859e4819a8dc0695739fea8c65", "b2f858c7c9ea801d53d603596d657844",
    "87e76268dbc9227226b0ca665f64e378", "c17e5505b2bd526c2921cdec1e7e0109",
    "d0a8d95715518eebb513b0f83d9e1793", "234126f93fbb668d975112e8febdf7ec",
    "ef42f03db78f704d023c449f16b7092b", "abf76238c20af161b2314b4d5526bce9",
    "3c2c2f11bb90cf0be335ca9b2e91e9b7", "2a7a680f22a02a92f45149d20fece0ef",
    "c9a8d130231dd43e42e6456957f83779", "1d127b84405ceab99fd8775a9be6c559",
    "9e4bf837bcfd92cace09d2061a84d04a", "39031a965d73b4af5a274d18f973b1d2",
    "7f4d0a1209d67e4ed06f7538e1cfad64", "e61ee240fbdcce38969f4cd24927dd93",
    "4c3ba2b37b0fdd8cfa5e95c189b29414", "e06fd4ca066fecdd54068a5ad8896f86",
    "5ca84c34139c6580a88af24990720706", "42ea961c5b3c858b17c3e550dfa79010",
    "406c44dee67857b2943160f30c7417d3", "c5f57bae1320fcf4b4e868e71d56c66b",
    "04bf737a5b676be7c3de05017df4bff9", "5163c9c03f1907ea1044ed5c30727b4f",
    "37a110f002718edad24b3f9ee453f140", "b9877e381aedd3da08c33e75ff23ac10",
    "7c5004005ec5da4c5ac9440e5c723193", "81b8243783dbc646ca9d0cd82abdb46c",
    "505720543eb9b413d50b3cfad9eef938", "945f594de72411e4d335be874456d8f3",
    "37923b3e371777b21170bf9d7e62f602", "3ad4e7c85764964611eb0a6c4d62de56",
    "cd91396c44af4f5185578d9dd9803f0a", "fe28158e727b868f3903c9acda64a258",
    "40cc10b8288ce5f0bc3ac0b68a0eebc8", "6f1490f540699a3cd4974420ecc92737",
    "d505f1b75e1a84a603c43583b2ed0308", "491573cfd72bb4682b7ca5880e1c8d6f",
    "3ed69cfe45ab403f2fd2ad959ba27666", "8be839ef1b20b57c83ba7eb6a8c22b6a",
    "1409186ab42231fedee18162cf1cb4ca", "2bf3ccc24ab672cf151fb8d2f3f3069b",
    "b9b93a2882d6025cdb8c56fa13f7537b", "d97cca3694fb206db8bd1f3650c33322",
    "94ec2e19a40be41af3940d6b30c49384", "4b41603f209a045be140a341a3dffe10",
    "23fbcb309f1cf094890755ab1b426569", "e7d9b65690918a2b232f2f5c12c8300e",
    "ade83cf7e7f3847b36fa4b54b00dce61", "0610c5f2ee571c8ac80cbfe538bdf1c7",
    "271d5d00fbdb5d155d9dcea97cb40218", "4c5800e34efe426f079f6b0aa75260ad",
};

static const struct sl_hash_key key = {
    UINT64_C(0x0706050403020100),
    UINT64_C(0x0f0e0d0c0b0a0908),
};

/* As OpenSSL prints it. */
static void put_hex(uint64_t word, char *out)
{
    for (size_t i = 0; i < 8; i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned)(word >> (8 * i) & 0xff));
}

TEST(vectors)
{
    char text[64], hex[33];

    for (unsigned i = 0; i < sizeof(text); i++)
        text[i] = (char)i;
    CASE("64 bits equal OpenSSL's for lengths 0 to 63");
    for (unsigned n = 0; n < 64; n++) {
        put_hex(sl_hash64(&key, (struct sl_str){text, n}), hex);
        CHECK_STR(hex, narrow[n]);
    }
    CASE("128 bits equal OpenSSL's for lengths 0 to 63");
    for (unsigned n = 0; n < 64; n++) {
        struct sl_hash128 h = sl_hash128(&key, (struct sl_str){text, n});

        put_hex(h.lo, hex);
        put_hex(h.hi, hex + 16);
        CHECK_STR(hex, wide[n]);
    }
}

TEST(slices)
{
    char shifted[8 + 32];
    char text[32];
    struct sl_str empty = {NULL, 0};
    struct sl_hash_key other = key;

    CASE("an empty slice may have no address");
    CHECK(sl_hash64(&key, empty) == sl_hash64(&key, SL_STR("")));

    CASE("the place in memory does not matter");
    memset(text, 'x', sizeof(text));
    for (unsigned i = 0; i < 8; i++) {
        struct sl_str there = {shifted + i, sizeof(text)};

        memcpy(shifted + i, text, sizeof(text));
        CHECK(sl_hash64(&key, there) ==
              sl_hash64(&key, (struct sl_str){text, sizeof(text)}));
    }

    CASE("both halves of the key matter");
    other.k0 ^= 1;
    CHECK(sl_hash64(&other, SL_STR("ann")) != sl_hash64(&key, SL_STR("ann")));
    other = key;
    other.k1 ^= 1;
    CHECK(sl_hash64(&other, SL_STR("ann")) != sl_hash64(&key, SL_STR("ann")));

    CASE("a NUL more is another text");
    CHECK(sl_hash64(&key, SL_STR("ann")) != sl_hash64(&key, SL_STR("ann\0")));
}

TEST(secrets)
{
    struct sl_hash_key a = {0, 0}, b = {0, 0};

    CASE("two fresh secrets differ");
    CHECK_EQ(sl_hash_key_make(&a), 0);
    CHECK_EQ(sl_hash_key_make(&b), 0);
    CHECK(a.k0 != b.k0 && a.k1 != b.k1);
    CHECK(a.k0 != 0 && a.k1 != 0);
}

CHECK_MAIN()
