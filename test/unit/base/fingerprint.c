/* fingerprint.c -- fingerprints by AES: vectors, and what they read.
 *
 * State files depend on them, so they never change. The vectors were made by a
 * program in Python that was written from the description in
 * src/base/fingerprint.c; its rounds gave the AES-128 of OpenSSL. They are for
 * the secret 00 01 .. 0f and the texts "", 00, 00 01, and so on up to 64 bytes.
 */
#include "base/fingerprint.h"

#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static const char *const vectors[SL_AES_MOST + 1] = {
    "fe81dadd904afb5adc7ebc26a5771f58", "aa5e737b37774c300cfa39122f30b958",
    "4fd015db960de78d048a7454dd83dca8", "be46775e8970e58d0fa02c94ba849961",
    "30825f3e43379e54bb2796b39125e4b6", "555c24561b59cd86ce1602e3110f7b4b",
    "99e0c707bdb2d6ad98dbd0b56f98ab85", "641e490c1ab0913261e136bf1f908d5b",
    "dcc589514b0e9d2537cc18f4522af729", "a63740f8e66e3af64d7abcc0564554de",
    "54a521794dcdcee9f1cb673877b34033", "9a60199d44af3f7ff38c274be336e51e",
    "978c23334f14e28f894f4e7a9adca4a5", "be4c4c3b66989374dcd687f04b1760ef",
    "19bf9a523ab73a000fba92518a1307bc", "c62ad596d788e68b3acb16ec69bda7c3",
    "057325e1ff321af8e1445b0e29550cbf", "6e2126b4b336baf1032d5fa03097c7ac",
    "6942a133aa1332638add2fa0c36272e9", "3ae86fea6e4cfd6aae0e8436a5a9ddf8",
    "4b43019cf0fdebc0134d6afe5e4dc4f6", "c2206c186b3fb01def227a67643d9b6c",
    "89bb7c56d1360892e70d4b18baded53e", "28cec9e66afd5e523f6834db2a4f42b9",
    "f1ed0c75712ca8d034de722cf7e1f608", "3c519aeaed69673f6fb3fd7650171f16",
    "27a53bc53e2eea9382d6be9c0bf48a44", "e3fda4c2ffa36f710819f46d4be4889d",
    "86158548ac0c7531f464e178d95a3e29", "c65eaf85f7cfc8a17c4c00be0ed18438",
    "92c3574bca091a7fabaeb90165dd49e9", "e06b301ed14d40aa6780df86bb34e5a1",
    "f9ce50264e097d27c2568a2b3cf37413", "d62aea54c41e3d6e59a462bc2d3c701b",
    "77b8bc67af96245272d867ba7cb48514", "2ce0a71654f813f7e41c41d3f303862b",
    "a002b78c6f1bd51cfdd13388494eca0b", "0c56aa71969abad34743f7a50ecd50af",
    "fbedef0a46d3e1d76b71086cfe068de8", "5276000c754966ed29276da82c918fa6",
    "f0d2b4d1624c43bd9fbfd0930c019550", "7106b3b05bb4a53bf1ab778d8252e153",
    "655bf0ed2c90e86069602be14d172ab3", "76b82a6b08892041d6440b3e59e1fa9c",
    "043be815829b9fbdcaa20ab9304f8833", "eb3d2159734c2fd2ebc9f11ee902ee63",
    "63409df9a63ac6e11f6bef6c74c35fd6", "5e7e35ca58b26f739ce071cdd70854b2",
    "1cd0f62e8dec10cef890329bb8a3f28b", "d613c1a369aee57132bc39757da6cbf0",
    "52245618d8089ccff8310b758b1f2920", "669c661d2158fcfdcb6787450f546cab",
    "772197484f8afafecddf6990518d6215", "4368b2ae70f9454600323a2709055e8d",
    "2fc55ede6d2638484f74803a193ef502", "da13082dd88d345483997dd65179417c",
    "1bb9adacc1a20bd8dff80c8e5a5302a7", "42e20de8148b2dc055da046805a41364",
    "658c68db56bf316fff8592c530028b7c", "00b6e699bf2a9f13baa7205af38b3452",
    "ce31b788c4879ad47e12fb0b21224a3a", "4c43794e7b6fbea5c3ca4db585356110",
    "619f48a409fa908d299b2b5450d889de", "b88e02cf911ada5db6703a8ff25bcf4b",
    "ea6b5d3b52de7c96ca14d57c9fb332e6",
};

static const struct sl_hash_key secret = {
    UINT64_C(0x0706050403020100),
    UINT64_C(0x0f0e0d0c0b0a0908),
};

/* By the two methods, if this machine has the instructions. */
static struct sl_hasher hashers[2];
static unsigned methods;

static void make_hashers(void)
{
    sl_hasher_init(&hashers[0], &secret, SL_BY_AES);
    methods = 1;
    if (hashers[0].method != SL_HASH_AES)
        return;
    hashers[1] = hashers[0];
    hashers[1].method = SL_HASH_AES_SOFTWARE;
    methods = 2;
}

static void put_hex(struct sl_hash128 hash, char *out)
{
    for (size_t i = 0; i < 16; i++)
        snprintf(out + 2 * i, 3, "%02x",
                 (unsigned)((i < 8 ? hash.lo : hash.hi) >> 8 * (i % 8) & 0xff));
}

TEST(vectors)
{
    char text[SL_AES_MOST], hex[40];

    for (unsigned i = 0; i < sizeof(text); i++)
        text[i] = (char)i;
    for (unsigned m = 0; m < methods; m++) {
        CASE(m ? "by software, the vectors" : "the vectors");
        for (unsigned n = 0; n < SL_LEN(vectors); n++) {
            put_hex(sl_fingerprint(&hashers[m], (struct sl_str){text, n}), hex);
            if (!CHECK_STR(hex, vectors[n]))
                printf("# length %u\n", n);
        }
    }
}

TEST(method)
{
    static char text[1000];
    struct sl_hasher sip;

    CASE("SipHash is as before");
    sl_hasher_init(&sip, &secret, SL_BY_SIPHASH);
    CHECK_EQ(sip.method, SL_HASH_SIP);
    for (unsigned n = 0; n < sizeof(text); n++)
        CHECK(sl_hash128_eq(sl_fingerprint(&sip, (struct sl_str){text, n}),
                            sl_hash128(&secret, (struct sl_str){text, n})));
    CASE("and it hashes the longer keys");
    for (unsigned m = 0; m < methods; m++)
        for (size_t n = SL_AES_MOST + 1; n < sizeof(text); n++)
            CHECK(sl_hash128_eq(
                sl_fingerprint(&hashers[m], (struct sl_str){text, n}),
                sl_hash128(&secret, (struct sl_str){text, n})));
    CASE("new tables use the instructions where there are some");
    CHECK_EQ(sl_fingerprints_best(), methods == 2 ? SL_BY_AES : SL_BY_SIPHASH);
}

/* A key that begins or ends where its memory does. */
TEST(edges)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct sl_str empty = {NULL, 0};
    char text[SL_AES_MOST];
    char *pages =
        mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CASE("nothing is read before a key or behind it");
    if (!CHECK(pages != MAP_FAILED &&
               mprotect(pages + page, page, PROT_READ | PROT_WRITE) == 0))
        return;
    memset(text, 'x', sizeof(text));
    memset(pages + page, 'x', page);
    for (unsigned m = 0; m < methods; m++)
        for (size_t n = 0; n <= SL_AES_MOST; n++) {
            struct sl_hash128 want =
                sl_fingerprint(&hashers[m], (struct sl_str){text, n});

            CHECK(sl_hash128_eq(
                sl_fingerprint(&hashers[m], (struct sl_str){pages + page, n}),
                want));
            CHECK(sl_hash128_eq(
                sl_fingerprint(&hashers[m],
                               (struct sl_str){pages + 2 * page - n, n}),
                want));
        }
    munmap(pages, 3 * page);
    CASE("an empty key may have no address");
    for (unsigned m = 0; m < methods; m++)
        CHECK(sl_hash128_eq(sl_fingerprint(&hashers[m], empty),
                            sl_fingerprint(&hashers[m], SL_STR(""))));
}

int main(void)
{
    make_hashers();
    RUN_TESTS();
    return CHECK_DONE();
}
