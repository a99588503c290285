/* file.c -- whole files, and why not. */
#include "base/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "fail.h"

#define LEN 10000 /* several chunks */

static char path[] = "/tmp/sluice-file-XXXXXX";

static void make_file(void)
{
    int fd = mkstemp(path);

    for (int i = 0; i < LEN; i++)
        CHECK_EQ(write(fd, "x", 1), 1);
    close(fd);
}

static void test_read(void)
{
    struct sl_diag diag = {0};
    struct sl_buf buf;

    sl_buf_init(&buf, 1 << 20, &sl_alloc_libc);
    CASE("a whole file is appended");
    CHECK_EQ(sl_buf_add(&buf, SL_STR("ab")), 0);
    CHECK_EQ(sl_file_read(path, LEN, &buf, &diag), 0);
    CHECK_EQ(buf.len, LEN + 2);
    CHECK(buf.bytes[1] == 'b' && buf.bytes[2] == 'x');

    CASE("one byte too much");
    CHECK_EQ(sl_file_read(path, LEN - 1, &buf, &diag), SLUICE_EFULL);
    CHECK(strstr(diag.sentence, "has more than 9999 bytes") != NULL);

    CASE("a file that is not there, and a folder");
    CHECK_EQ(sl_file_read("/nonexistent/x", 9, &buf, &diag), SLUICE_ESYS);
    CHECK_EQ(errno, ENOENT);
    CHECK_STR(diag.sentence,
              "/nonexistent/x can't be read: No such file or directory");
    CHECK_EQ(sl_file_read("/tmp", 9, &buf, NULL), SLUICE_ESYS);
    CHECK_EQ(errno, EISDIR);
    sl_buf_done(&buf);
}

static void test_full(void)
{
    static const struct {
        size_t ceiling;
        int want;
    } rows[] = {
        {LEN,     0           },
        {LEN - 1, SLUICE_EFULL},
        {LEN + 1, 0           },
        {4096,    SLUICE_EFULL},
    };

    CASE("a buffer for just this file, and smaller ones");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_diag diag = {0};
        struct sl_buf buf;

        sl_buf_init(&buf, rows[i].ceiling, &sl_alloc_libc);
        CHECK_EQ(sl_file_read(path, LEN, &buf, &diag), rows[i].want);
        if (rows[i].want == 0)
            CHECK_EQ(buf.len, LEN);
        sl_buf_done(&buf);
    }
}

static void test_no_memory(void)
{
    struct fail fail = {.nth = 1};
    struct sl_alloc alloc = {fail_resize, &fail};
    struct sl_buf buf;
    int err;

    CASE("the nth allocation fails");
    do {
        fail.calls = 0;
        sl_buf_init(&buf, 1 << 20, &alloc);
        err = sl_file_read(path, LEN, &buf, NULL);
        CHECK(err == 0 || err == SLUICE_ENOMEM);
        sl_buf_done(&buf);
        CHECK_EQ(fail.pieces, 0);
        fail.nth++;
    } while (err);
    CHECK(fail.nth > 2);
}

int main(void)
{
    CASE("a file");
    make_file();
    test_read();
    test_full();
    test_no_memory();
    unlink(path);
    return CHECK_DONE();
}
