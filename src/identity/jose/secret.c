/* secret.c -- bytes that nobody else shall see. */
#include "identity/jose/secret.h"

#include <openssl/crypto.h>
#include <sys/mman.h>

int sl_secure_mem_new(size_t room, struct sl_secure_mem *ret)
{
    void *pages = mmap(NULL, room, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        return SLUICE_ENOMEM;
    /* Where the kernel does not know the advice, there is none to be had. */
    (void)madvise(pages, room, MADV_DONTDUMP);
    *ret = (struct sl_secure_mem){.bytes = pages, .room = room};
    return 0;
}

bool sl_secure_mem_is_blank(const uint8_t *bytes, size_t len)
{
    uint8_t differs = 0;

    for (size_t i = 1; i < len; i++)
        differs |= (uint8_t)(bytes[i] ^ bytes[0]);
    return differs == 0;
}

void sl_secure_mem_done(struct sl_secure_mem *secret)
{
    if (!secret->bytes)
        return;
    OPENSSL_cleanse(secret->bytes, secret->room);
    munmap(secret->bytes, secret->room);
    *secret = (struct sl_secure_mem){.bytes = NULL};
}
