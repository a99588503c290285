/* scan.c -- reading a small text from left to right.
 *
 * All parsers of this room read the same digits, quote in the same way and
 * offer the same kind of hint: the whole text again, with the wrong bytes
 * replaced, so that it can be copied as it stands.
 */
#include "base/scan.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/arith.h"

#define QUOTE_MAX ((size_t)40)

/* With more places than this a fraction is no slip, and 10^9 is still far
 * from the end of 64 bits. */
#define PLACES_MAX 9

struct sl_quoted sl_quote(struct sl_str s)
{
    struct sl_quoted q;
    size_t len = s.len;

    if (len > QUOTE_MAX)
        for (len = QUOTE_MAX; len > 0 && (s.at[len] & 0xc0) == 0x80;)
            len--; /* not inside a character */
    for (size_t i = 0; i < len; i++)
        q.text[i] = s.at[i] ? s.at[i] : '?';
    memcpy(q.text + len, "...", 4);
    if (len == s.len)
        q.text[len] = '\0';
    return q;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80);
}

int sl_scan_open(struct sl_scan *scan, struct sl_str text, const char *noun,
                 const char *like, struct sl_diag *diag)
{
    struct sl_str bare = sl_str_trim(text);

    *scan = (struct sl_scan){.text = text, .noun = noun, .diag = diag};
    if (bare.len == 0)
        return sl_refuse(diag, SLUICE_ECONF, "Missing value. Write %s like %s",
                         noun, like);
    if (bare.len == text.len)
        return 0;
    sl_refuse_at(diag, SLUICE_ECONF, bare.at > text.at ? 0 : bare.len,
                 "\"%s\" begins or ends with spaces. Write %s",
                 sl_quote(text).text, sl_quote(bare).text);
    sl_hint(diag, "%.*s", SL_STR_ARG(bare));
    return SLUICE_ECONF;
}

bool sl_scan_done(const struct sl_scan *scan)
{
    return scan->at == scan->text.len;
}

struct sl_str sl_scan_rest(const struct sl_scan *scan)
{
    return sl_str_from(scan->text, scan->at);
}

char sl_scan_peek(const struct sl_scan *scan)
{
    return sl_scan_done(scan) ? '\0' : scan->text.at[scan->at];
}

size_t sl_scan_blanks(struct sl_scan *scan)
{
    size_t from = scan->at;

    while (sl_scan_peek(scan) == ' ' || sl_scan_peek(scan) == '\t')
        scan->at++;
    return scan->at - from;
}

struct sl_str sl_scan_word(struct sl_scan *scan)
{
    struct sl_str word = sl_scan_rest(scan);
    size_t from = scan->at;

    while (is_letter(sl_scan_peek(scan)))
        scan->at++;
    word.len = scan->at - from;
    return word;
}

static struct sl_str pass_digits(struct sl_scan *scan)
{
    struct sl_str digits = sl_scan_rest(scan);
    size_t from = scan->at;

    while (is_digit(sl_scan_peek(scan)))
        scan->at++;
    digits.len = scan->at - from;
    return digits;
}

/* False if it does not fit. */
static bool value_of(struct sl_str digits, uint64_t *ret)
{
    uint64_t n = 0;

    for (size_t i = 0; i < digits.len; i++)
        if (__builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(digits.at[i] - '0'), &n))
            return false;
    *ret = n;
    return true;
}

static int refuse_zero(struct sl_scan *scan, size_t from, struct sl_str digits)
{
    struct sl_str bare = digits;
    struct sl_quoted words;

    while (bare.len > 1 && bare.at[0] == '0')
        bare = sl_str_from(bare, 1);
    words = sl_quote(bare);
    sl_refuse_at(scan->diag, SLUICE_ECONF, from,
                 "\"%s\" has a leading zero. Write %s", sl_quote(digits).text,
                 words.text);
    sl_scan_instead(scan, from, scan->at, words.text);
    return SLUICE_ECONF;
}

int sl_scan_number(struct sl_scan *scan, uint64_t *ret)
{
    size_t from = scan->at;
    struct sl_str digits = pass_digits(scan);

    if (digits.len == 0)
        return sl_refuse_at(scan->diag, SLUICE_ECONF, from,
                            "Expected digits for %s, not \"%s\"", scan->noun,
                            sl_quote(sl_scan_rest(scan)).text);
    if (digits.len > 1 && digits.at[0] == '0')
        return refuse_zero(scan, from, digits);
    if (!value_of(digits, ret))
        return sl_refuse_at(
            scan->diag, SLUICE_ECONF, from,
            "Value %s is too large. The maximum of %s is %" PRIu64,
            sl_quote(digits).text, scan->noun, UINT64_MAX);
    return 0;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b > 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

void sl_fraction_scale(struct sl_fraction *f, uint64_t num, uint64_t den)
{
    uint64_t divisor;

    if (__builtin_mul_overflow(f->num, num, &f->num) ||
        __builtin_mul_overflow(f->den, den, &f->den) || f->den == 0) {
        f->den = 0;
        return;
    }
    divisor = common_divisor(f->num, f->den);
    f->num /= divisor;
    f->den /= divisor;
}

/* The value of the digits before and behind the point. */
static void evaluate(struct sl_fraction *f, struct sl_str whole,
                     struct sl_str places)
{
    uint64_t part;

    while (places.len > 0 && places.at[places.len - 1] == '0')
        places.len--;
    f->num = f->den = 0;
    if (places.len > PLACES_MAX || !value_of(whole, &f->num) ||
        !value_of(places, &part))
        return;
    f->den = 1;
    for (size_t i = 0; i < places.len; i++)
        f->den *= 10;
    if (__builtin_mul_overflow(f->num, f->den, &f->num) ||
        __builtin_add_overflow(f->num, part, &f->num))
        f->den = 0;
    sl_fraction_scale(f, 1, 1);
}

bool sl_scan_fraction(struct sl_scan *scan, size_t from,
                      struct sl_fraction *ret)
{
    struct sl_str whole = {scan->text.at + from, scan->at - from};
    struct sl_str places;

    if (sl_scan_peek(scan) != '.')
        return false;
    scan->at++;
    places = pass_digits(scan);
    ret->text = (struct sl_str){whole.at, scan->at - from};
    evaluate(ret, whole, places);
    return true;
}

void sl_scan_instead(const struct sl_scan *scan, size_t from, size_t to,
                     const char *words)
{
    struct sl_str before = {scan->text.at, from};

    assert(from <= to && to <= scan->text.len);
    sl_hint(scan->diag, "%.*s%s%.*s", SL_STR_ARG(before), words,
            SL_STR_ARG(sl_str_from(scan->text, to)));
}
