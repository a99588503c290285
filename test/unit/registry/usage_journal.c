/* usage_journal.c -- the file of the usage journal: what a killed process
 * leaves, damage, room, and segments that are recorded once. */
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "books.h"
#include "fail.h"
#include "registry/usage_journal.h"

#define SMALL SL_JOURNAL_LEAST

static char file[128];

static struct sl_usage_journal *open_file(uint64_t size)
{
    struct sl_usage_journal_options options = {.path = file, .size = size};
    struct sl_usage_journal *journal = NULL;
    struct sl_diag diag = {0};

    if (!CHECK_EQ(sl_usage_journal_open(&options, &journal, &diag), 0))
        printf("Bail out! %s\n", diag.sentence);
    return journal;
}

static struct sl_usage_line *add(struct sl_usage_segment *segment,
                                 const char *id, int64_t amount)
{
    struct sl_usage_entry u = report(id, amount, "");

    return sl_usage_segment_add(segment, &u, 1, 0);
}

/* Returns the units of the recovered segments, and their lines. */
static int64_t recovered(struct sl_usage_journal *journal, unsigned *lines)
{
    struct sl_usage_segment *segment;
    int64_t units = 0;
    unsigned i = 0;

    for (*lines = 0; (segment = sl_usage_journal_recovered(journal, i)); i++) {
        struct sl_usage_line *line = NULL;

        CHECK_EQ(atomic_load(&segment->state), SL_SEGMENT_SEALED);
        while ((line = sl_usage_segment_next(segment, line))) {
            units += sl_usage_line_amount(line)->amount;
            ++*lines;
        }
        sl_usage_journal_drop_recovered(journal, i);
        CHECK(!sl_usage_journal_recovered(journal, i));
    }
    return units;
}

static struct sl_usage_segment *open_segment(struct sl_usage_journal *journal)
{
    static uint64_t sequence;

    return sl_usage_segment_open(journal, 1, ++sequence, DAY_0);
}

static void test_kept(void)
{
    struct sl_usage_journal *journal = open_file(SMALL);
    struct sl_usage_segment *segment = open_segment(journal);
    struct sl_usage_entry u = report("acme", 3, "key"), back;
    struct sl_usage_line *line;
    struct sl_usage_journal_counts counts;
    unsigned lines;

    CASE("a line is read as it was written");
    u.name = S("thing");
    u.node = S("one");
    u.hold[1] = 5;
    u.until = DAY_0 + 7;
    line = sl_usage_segment_add(segment, &u, 9, SL_LINE_REPORT);
    sl_usage_line_read(line, &back);
    CHECK(is(back.limit, "minutes") && is(back.scope, "org"));
    CHECK(is(back.id, "acme") && is(back.key, "key"));
    CHECK(is(back.name, "thing") && is(back.node, "one"));
    CHECK(back.amount == 3 && back.hold[1] == 5 && back.until == u.until);
    CHECK(back.cap == 100 && back.start == DAY_0 && back.at == u.at);
    CHECK_EQ(back.thresholds.count, 2);

    CASE("(2) a change that was not shown did not happen");
    sl_usage_line_change(line)->amount = 1000;
    CHECK_EQ(sl_usage_line_amount(line)->amount, 3);
    CASE("what was written is there after the process has ended");
    CHECK(add(open_segment(journal), "other", 4));
    sl_usage_journal_close(journal);
    journal = open_file(SMALL);
    CHECK(!sl_usage_journal_notice(journal)[0]);
    sl_usage_journal_count(journal, &counts);
    CHECK(counts.lines == 2 && counts.units == 7 && counts.oldest == DAY_0);
    CHECK(counts.bytes > 0);
    CHECK_EQ(recovered(journal, &lines), 7);
    CHECK_EQ(lines, 2);
    sl_usage_journal_count(journal, &counts);
    CHECK(counts.lines == 0 && counts.units == 0 && counts.bytes == 0);
    CHECK_EQ(counts.oldest, SL_NS_NONE);
    CASE("and then no more");
    sl_usage_journal_close(journal);
    journal = open_file(SMALL);
    CHECK_EQ(recovered(journal, &lines), 0);
    sl_usage_journal_close(journal);
}

/* A power failure may take back that a segment was sealed. */
static void test_order(void)
{
    struct sl_usage_journal *journal = open_file(SMALL);
    struct sl_usage_segment *segments[3], *found;
    uint64_t stream = sl_usage_journal_stream(journal), epoch;
    struct sl_str node = sl_usage_journal_node(journal);
    char name[SL_JOURNAL_NODE];

    CASE("segments keep their sequences, and are recorded in their order");
    snprintf(name, sizeof(name), "%.*s", SL_STR_ARG(node));
    for (unsigned i = 0; i < 3; i++) {
        segments[i] = sl_usage_segment_open(journal, stream, 7 + i, DAY_0);
        CHECK(add(segments[i], "acme", 1 + i));
    }
    sl_usage_segment_seal(segments[2]);
    sl_usage_segment_seal(segments[1]);
    epoch = sl_usage_journal_streams(journal);
    sl_usage_journal_close(journal);
    journal = open_file(SMALL);
    CHECK(is(sl_usage_journal_node(journal), name));
    CHECK(sl_usage_journal_streams(journal) != epoch);
    for (unsigned i = 0; i < 3; i++) {
        found = sl_usage_journal_recovered(journal, i);
        CHECK_EQ(
            sl_usage_line_amount(sl_usage_segment_next(found, NULL))->amount,
            1 + i);
        CHECK_EQ(found->sequence, 7 + i);
        CHECK(found->stream == stream);
        sl_usage_journal_drop_recovered(journal, i);
    }
    CHECK(!sl_usage_journal_recovered(journal, 3));
    sl_usage_journal_close(journal);
}

/* ---- version 1 ---- */

#define OLD_MAGIC  UINT64_C(0x746e656d67657300)
#define HEAD_MAGIC UINT64_C(0x6a65676173757c73)

static uint64_t old_check(uint64_t key, const void *bytes, size_t len)
{
    struct sl_hash_key secret = {key, OLD_MAGIC};

    return sl_hash64(&secret, (struct sl_str){bytes, len});
}

static void make_old_line(const struct sl_usage_segment *segment,
                          struct sl_usage_line *line)
{
    struct sl_usage_line first;
    uint64_t key =
        segment->generation + (uint64_t)((char *)line - (const char *)segment);

    memcpy(&first, line, 64);
    first.check = 0;
    atomic_init(&first.which, 0);
    key = old_check(key, &first, 64);
    key = old_check(key, &line->thresholds,
                    (size_t)line->size * 64 -
                        offsetof(struct sl_usage_line, thresholds));
    line->check = (uint32_t)(key ^ key >> 32);
}

/* As version 1 wrote it: without a stream while it is open. */
static void make_old(struct sl_usage_segment *segment, bool sealed)
{
    struct sl_usage_line *line = NULL;
    uint64_t words[4];

    segment->magic = OLD_MAGIC;
    while ((line = sl_usage_segment_next(segment, line)))
        make_old_line(segment, line);
    words[0] = segment->magic;
    words[1] = segment->order;
    segment->check_open = old_check(segment->generation, words, 16);
    if (!sealed) {
        segment->stream = segment->sequence = 99;
        return;
    }
    words[0] = segment->check_open;
    words[1] = segment->stream;
    words[2] = segment->sequence;
    words[3] = old_check(segment->generation, segment + 1,
                         segment->used - sizeof(*segment));
    segment->check_sealed = old_check(segment->generation, words, 32);
    segment->state = SL_SEGMENT_SEALED;
}

static void make_old_head(void)
{
    int fd = open(file, O_RDWR);
    uint64_t head[5];

    CHECK_EQ(pread(fd, head, sizeof(head), 0), sizeof(head));
    head[1] = head[1] >> 32 << 32 | 1;
    head[4] = old_check(HEAD_MAGIC, head, 32);
    CHECK_EQ(pwrite(fd, head, sizeof(head), 0), sizeof(head));
    close(fd);
}

/* A journal of version 1 with 17 units. */
static void make_old_file(void)
{
    struct sl_usage_journal *journal = open_file(SMALL);
    struct sl_usage_segment *sealed, *left;

    sealed = sl_usage_segment_open(journal, 5, 6, DAY_0);
    left = sl_usage_segment_open(journal, 5, 7, DAY_0);
    CHECK(add(sealed, "acme", 3) && add(sealed, "other", 4));
    CHECK(add(left, "acme", 10));
    make_old(sealed, true);
    make_old(left, false);
    sl_usage_journal_close(journal);
    make_old_head();
}

static void test_version(void)
{
    struct sl_usage_journal *journal;
    struct sl_usage_segment *sealed, *left;

    CASE("a journal of version 1 is read");
    make_old_file();
    for (int i = 0; i < 2; i++) { /* it is read again after a kill */
        unsigned lines = 0;

        journal = open_file(SMALL);
        CHECK_STR(sl_usage_journal_notice(journal), "");
        sealed = sl_usage_journal_recovered(journal, 0);
        left = sl_usage_journal_recovered(journal, 1);
        CHECK(sealed && sealed->stream == 5 && sealed->sequence == 6);
        CHECK(left && left->sequence == 1 && left->stream != 99);
        if (i == 1)
            CHECK_EQ(recovered(journal, &lines), 17);
        sl_usage_journal_close(journal);
    }
}

static void check_old_lines(void)
{
    struct sl_usage_journal *journal = open_file(SMALL);
    unsigned lines;

    CHECK_STR(sl_usage_journal_notice(journal), "");
    CHECK_EQ(recovered(journal, &lines), 17);
    CHECK_EQ(lines, 3);
    sl_usage_journal_close(journal);
}

/* A head of version 1 that was written anew word by word. */
static void test_mixed_head(void)
{
    uint32_t version = 2;
    int fd;

    CASE("a new version with the check of the old one: all lines are read");
    make_old_file();
    fd = open(file, O_RDWR);
    CHECK_EQ(pwrite(fd, &version, sizeof(version), 8), sizeof(version));
    close(fd);
    check_old_lines();
}

/* Opens the journal in a process that is killed at the `nth` stop of a system
 * call, before or after it. Returns false if it has ended before. */
static bool open_and_kill(unsigned nth)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(77);
        raise(SIGSTOP);
        (void)open_file(SMALL);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    for (unsigned i = 0; i < nth && WIFSTOPPED(status); i++)
        if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) ||
            waitpid(pid, &status, 0) != pid)
            break;
    if (WIFEXITED(status)) {
        CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
        return false;
    }
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return true;
}

static void test_killed_upgrade(void)
{
    unsigned nth = 0;
    bool killed;

    CASE("a process is killed at each step of an open: all lines are read");
    do {
        make_old_file();
        killed = open_and_kill(++nth);
        check_old_lines();
    } while (killed && !check_state.bad);
    printf("# %u steps\n", nth);
}

static void flip(off_t at)
{
    int fd = open(file, O_RDWR);
    char byte;

    CHECK_EQ(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    CHECK_EQ(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Three lines, of which the second is damaged at this byte. Returns what is
 * read. */
static int64_t damage(size_t at, bool sealed, unsigned *lines, bool *noticed)
{
    struct sl_usage_journal *journal = open_file(SMALL);
    struct sl_usage_segment *segment = open_segment(journal);
    struct sl_usage_line *line;
    off_t where;
    int64_t units;

    CHECK(add(segment, "first", 1));
    line = add(segment, "second", 20);
    CHECK(add(segment, "third", 300));
    if (sealed)
        sl_usage_segment_seal(segment);
    where =
        4096 +
        (off_t)(sl_usage_segment_index(journal, segment) * SL_JOURNAL_SEGMENT) +
        (off_t)((char *)line - (char *)segment) + (off_t)at;
    sl_usage_journal_close(journal);
    flip(where);
    journal = open_file(SMALL);
    *noticed = sl_usage_journal_notice(journal)[0];
    units = recovered(journal, lines);
    sl_usage_journal_close(journal);
    return units;
}

static void test_damage(void)
{
    char copy[160];
    unsigned lines;
    bool noticed;

    CASE("(4) lines before damage are read, and nothing after it");
    snprintf(copy, sizeof(copy), "%s.damaged", file);
    for (size_t at = 0; at < offsetof(struct sl_usage_line, texts) + 16; at++) {
        bool is_amount = at >= offsetof(struct sl_usage_line, amounts) &&
                         at < offsetof(struct sl_usage_line, thresholds);

        if (is_amount)
            continue;
        CHECK_EQ(damage(at, false, &lines, &noticed), 1);
        CHECK_EQ(lines, 1);
        CHECK(noticed);
    }
    CASE("the file is kept aside");
    CHECK_EQ(access(copy, F_OK), 0);
    unlink(copy);
    CASE("of a sealed segment amounts are checked, too");
    for (size_t at = 0; at < 64; at += 8) {
        size_t in = offsetof(struct sl_usage_line, amounts) + at;

        CHECK_EQ(damage(in, true, &lines, &noticed), 0);
        CHECK(noticed);
    }
    unlink(copy);
}

static void test_head(void)
{
    struct sl_usage_journal_options options = {.path = file, .size = SMALL};
    struct sl_usage_journal *journal = open_file(SMALL), *other = NULL;
    struct sl_diag diag = {0};
    char copy[160];
    struct stat st;
    unsigned lines;
    FILE *text;

    CASE("a journal that is open is refused");
    CHECK_EQ(sl_usage_journal_open(&options, &other, &diag), SLUICE_ESYS);
    CHECK(strstr(diag.sentence, "another sluiced uses it"));
    CASE("a journal with lines keeps its size");
    CHECK(add(open_segment(journal), "acme", 1));
    sl_usage_journal_close(journal);
    journal = open_file(2 * SMALL);
    CHECK_EQ(sl_usage_journal_segments(journal), 7);
    CHECK_EQ(recovered(journal, &lines), 1);
    sl_usage_journal_close(journal);
    CASE("then it has the new one");
    journal = open_file(2 * SMALL);
    CHECK_EQ(sl_usage_journal_segments(journal), 15);
    sl_usage_journal_close(journal);
    CHECK(stat(file, &st) == 0 && st.st_size == 2 * SMALL);
    CASE("a damaged head is noticed, and the file is kept");
    snprintf(copy, sizeof(copy), "%s.damaged", file);
    flip(20);
    journal = open_file(SMALL);
    CHECK(strstr(sl_usage_journal_notice(journal), "0 lines were read"));
    CHECK_EQ(access(copy, F_OK), 0);
    unlink(copy);
    sl_usage_journal_close(journal);
    CASE("a file that is no journal is refused, and left as it is");
    text = fopen(file, "w");
    fputs("This is not a journal, and it is longer than a head.", text);
    fclose(text);
    CHECK_EQ(sl_usage_journal_open(&options, &other, &diag), SLUICE_ESYS);
    CHECK(strstr(diag.sentence, "not a usage journal"));
    CHECK(stat(file, &st) == 0 && st.st_size == 52);
    unlink(file);
    CASE("a creation that did not end is begun again");
    close(open(file, O_RDWR | O_CREAT, 0600));
    CHECK_EQ(truncate(file, SMALL), 0);
    sl_usage_journal_close(open_file(SMALL));
    CASE("a folder that is not there is named");
    options.path = "/nowhere/at/all";
    CHECK_EQ(sl_usage_journal_open(&options, &other, &diag), SLUICE_ESYS);
    CHECK(strstr(diag.sentence, "/nowhere/at/all: No such file"));
}

static void test_room(void)
{
    struct sl_usage_journal *journal = open_file(SMALL);
    struct sl_usage_segment *segments[16];
    unsigned count = 0, lines = 0;

    CASE("a segment ends, and so does the journal");
    while ((segments[count] = open_segment(journal)))
        count++;
    CHECK_EQ(count, 7);
    CHECK_EQ(sl_usage_journal_room(journal), 0);
    while (add(segments[0], "acme", 1))
        lines++;
    CHECK(lines > 400 && lines <= SL_JOURNAL_LINES);
    CASE("a recorded segment makes room");
    sl_usage_segment_free(journal, segments[3]);
    CHECK_EQ(sl_usage_journal_room(journal), 1);
    CHECK(open_segment(journal) == segments[3]);
    CHECK(!open_segment(journal));
    CHECK_EQ(sl_usage_journal_flush(journal), 0);
    sl_usage_journal_close(journal);
    unlink(file);
}

static void test_reports(void)
{
    struct sl_usage_journal *journal = open_file(SMALL);
    struct sl_usage_segment *segment = open_segment(journal);
    struct sl_usage_entry list[SL_JOURNAL_LINES + 1];
    uint32_t before;

    CASE("reports are added all or not at all");
    for (size_t i = 0; i < SL_LEN(list); i++)
        list[i] = report("acme", 1, "");
    CHECK(sl_usage_segment_add_reports(segment, list, 300));
    before = atomic_load(&segment->used);
    CHECK(!sl_usage_segment_add_reports(segment, list, SL_LEN(list)));
    CHECK_EQ(atomic_load(&segment->used), before);
    CHECK(sl_usage_segment_add_reports(segment, list, 100));
    CHECK(sl_usage_segment_next(segment, NULL)->flags == SL_LINE_REPORT);
    sl_usage_journal_close(journal);
    unlink(file);
}

static void on_synced(struct sl_journal_sync *sync)
{
    sl_loop_stop(sync->loop);
}

static void test_sync(struct world *w)
{
    struct sl_usage_journal *journal = open_file(SMALL);
    struct sl_journal_sync sync = {
        .loop = w->loop, .done = on_synced, .err = 1};

    CASE("a sync is answered on its loop");
    sl_usage_journal_sync(journal, &sync);
    sl_loop_run(w->loop);
    CHECK_EQ(sync.err, 0);
    CASE("and by the caller, when its thread has ended");
    sl_usage_journal_stop(journal);
    sync.err = 1;
    sl_usage_journal_sync(journal, &sync);
    CHECK_EQ(sync.err, 0);
    sl_loop_run(w->loop);
    sl_usage_journal_close(journal);
}

/* ---- recorded once ---- */

static enum sl_job_result put_segment(struct world *w, uint64_t sequence,
                                      uint64_t after, int64_t amount)
{
    struct sl_usage_entry u = report("once", amount, "");
    struct sl_job job;

    sl_job_init(&job, SL_JOB_USAGE, &sl_alloc_libc);
    job.usage = &u;
    job.change_count = 1;
    job.journal = S("journal");
    job.stream = 65536;
    job.sequence = sequence;
    job.after = after;
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    sl_job_clear(&job);
    return job.result;
}

static void test_once(struct world *w)
{
    struct sl_usage_entry reports[2] = {report("keyed", 5, "k"),
                                        report("keyed", 5, "k")};

    CASE("a segment is recorded once");
    CHECK_EQ(put_segment(w, 1, 0, 2), SL_JOB_DONE);
    CHECK_EQ(put_segment(w, 1, 0, 2), SL_JOB_DONE);
    CHECK_EQ(sum(w, "once", SL_ROW_COUNTER), 2);
    CASE("not before the one that it follows");
    CHECK_EQ(put_segment(w, 3, 2, 10), SL_JOB_CHANGED);
    CHECK_EQ(sum(w, "once", SL_ROW_COUNTER), 2);
    CHECK_EQ(put_segment(w, 2, 1, 20), SL_JOB_DONE);
    CHECK_EQ(put_segment(w, 3, 2, 10), SL_JOB_DONE);
    CHECK_EQ(put_segment(w, 2, 0, 20), SL_JOB_DONE);
    CHECK_EQ(sum(w, "once", SL_ROW_COUNTER), 32);
    CASE("sequences may be left out, once all before are known");
    CHECK_EQ(put_segment(w, 9, 0, 1), SL_JOB_DONE);
    CHECK_EQ(sum(w, "once", SL_ROW_COUNTER), 33);
    CASE("a key within a segment is recorded once, a wrong one is left out");
    for (int i = 0; i < 2; i++) {
        struct sl_usage_entry list[3] = {reports[0], reports[1],
                                         report("keyed", 7, "k")};
        struct sl_job job;

        list[2].key = S("k");
        sl_job_init(&job, SL_JOB_USAGE, &sl_alloc_libc);
        job.usage = list;
        job.change_count = 3;
        job.journal = S("journal");
        job.stream = 65537;
        job.sequence = 1 + (uint64_t)i;
        ask(w, &job);
        CHECK(job.err == 0 && job.result == SL_JOB_DONE);
        CHECK_EQ(list[2].result, SL_USAGE_CONFLICT);
        sl_job_clear(&job);
    }
    CHECK_EQ(sum(w, "keyed", SL_ROW_COUNTER), 5);
}

static void test_no_memory(void)
{
    CASE("whichever allocation fails, the journal is opened or refused");
    for (unsigned nth = 1; nth < 6; nth++) {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_usage_journal_options options = {
            .alloc = &alloc, .path = file, .size = SMALL};
        struct sl_usage_journal *journal = NULL;
        struct sl_diag diag = {0};
        int err = sl_usage_journal_open(&options, &journal, &diag);

        CHECK(err == 0 || err == SLUICE_ENOMEM);
        if (!err)
            sl_usage_journal_close(journal);
        fail_check(&f);
    }
}

int main(void)
{
    struct world w;

    world_open(&w);
    snprintf(file, sizeof(file), "%s/usage", w.folder);
    test_kept();
    test_order();
    test_version();
    test_mixed_head();
    test_killed_upgrade();
    test_damage();
    test_head();
    test_room();
    test_reports();
    test_sync(&w);
    test_once(&w);
    test_no_memory();
    world_close(&w);
    return CHECK_DONE();
}
