/* reply.c -- replies of DynamoDB, and clock skew. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/timestamp.h"
#include "store/dynamo/dynamo_int.h"

/* By the end of `__type`, behind a '#'. */
static const struct {
    const char *type;
    enum sl_dynamo_status means;
} types[] = {
    {"ConditionalCheckFailedException",        SL_UNMET         },
    {"TransactionConflictException",           SL_UNMET         },
    {"ReplicatedWriteConflictException",       SL_UNMET         },
    {"ProvisionedThroughputExceededException", SL_THROTTLED     },
    {"ThrottlingException",                    SL_THROTTLED     },
    {"Throttling",                             SL_THROTTLED     },
    {"RequestLimitExceeded",                   SL_THROTTLED     },
    {"LimitExceededException",                 SL_THROTTLED     },
    {"RequestTimeTooSkewed",                   SL_SKEWED        },
    {"RequestExpired",                         SL_SKEWED        },
    {"InvalidSignatureException",              SL_FORBIDDEN     },
    {"UnrecognizedClientException",            SL_FORBIDDEN     },
    {"AccessDeniedException",                  SL_FORBIDDEN     },
    {"MissingAuthenticationTokenException",    SL_FORBIDDEN     },
    {"IncompleteSignatureException",           SL_FORBIDDEN     },
    {"ExpiredTokenException",                  SL_FORBIDDEN     },
    {"ResourceNotFoundException",              SL_NO_TABLE      },
    {"ResourceInUseException",                 SL_NO_TABLE      },
    {"UnknownOperationException",              SL_NO_TRANSACTION},
};

const char *sl_dynamo_status_sentence(enum sl_dynamo_status status)
{
    static const char *const sentences[] = {
        [SL_DYNAMO_ANSWERED] = "",
        [SL_UNMET] = "too many concurrent writes to the same rows",
        [SL_THROTTLED] = "the table is throttled; increase its capacity",
        [SL_SKEWED] = "clock skew: this machine's clock differs too much from "
                      "the clock of AWS; synchronize it with NTP",
        [SL_FORBIDDEN] = "access denied; the credentials need GetItem, "
                         "BatchGetItem, Query, UpdateItem, PutItem, DeleteItem "
                         "and ConditionCheckItem on the table",
        [SL_NO_TABLE] = "the table does not exist; create it with the string "
                        "keys userId (partition) and dataType (sort)",
        [SL_NO_TRANSACTION] =
            "the endpoint does not support TransactWriteItems; several limits "
            "are taken by journaled writes, a row each",
        [SL_REFUSED] = "the endpoint rejected the request; is it DynamoDB?",
        [SL_UNSENT] = "cannot connect to the endpoint",
        [SL_UNSURE] = "the endpoint failed",
    };

    return sentences[status];
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

/* Why a transaction was cancelled: by the worst of the reasons. */
static enum sl_dynamo_status cancelled(const json_t *root)
{
    const json_t *list = json_object_get(root, "CancellationReasons");
    enum sl_dynamo_status worst = SL_UNMET;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *code = text_of(json_array_get(list, i), "Code");

        if (strcmp(code, "ThrottlingError") == 0 ||
            strcmp(code, "ProvisionedThroughputExceeded") == 0)
            worst = worst < SL_THROTTLED ? SL_THROTTLED : worst;
        else if (code[0] && strcmp(code, "None") != 0 &&
                 strcmp(code, "ConditionalCheckFailed") != 0 &&
                 strcmp(code, "TransactionConflict") != 0)
            worst = SL_REFUSED;
    }
    return worst;
}

static enum sl_dynamo_status meaning_of(int status, const json_t *root)
{
    const char *type = text_of(root, "__type");
    const char *end = strrchr(type, '#');
    const char *message = text_of(root, "message");

    if (!message[0])
        message = text_of(root, "Message");
    end = end ? end + 1 : type;
    if (strcmp(end, "TransactionCanceledException") == 0)
        return cancelled(root);
    if (strcmp(end, "InvalidSignatureException") == 0 &&
        strstr(message, "Signature ") &&
        (strstr(message, "expired") || strstr(message, "not yet current")))
        return SL_SKEWED;
    for (size_t i = 0; i < SL_LEN(types); i++)
        if (strcmp(end, types[i].type) == 0)
            return types[i].means;
    if (status == 429)
        return SL_THROTTLED;
    return status >= 500 || status < 400 ? SL_UNSURE : SL_REFUSED;
}

static void quote(int status, const json_t *root, char why[SL_REPLY_WHY])
{
    const char *message = text_of(root, "message");
    const char *type = text_of(root, "__type");
    const char *end = strrchr(type, '#');

    if (!message[0])
        message = text_of(root, "Message");
    snprintf(why, SL_REPLY_WHY, "%d %.60s%s%.100s", status,
             end ? end + 1 : type, message[0] ? ": " : "", message);
    for (char *at = why; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
}

/* ---- rows ---- */

/* {"N":"123"}: a whole number up to what a cell's word may be. */
static bool read_number(const json_t *item, const char *name, uint64_t most,
                        uint64_t *ret)
{
    const json_t *value = json_object_get(item, name);
    const char *text = text_of(value, "N");
    uint64_t number = 0;

    if (!text[0] || strlen(text) > 19)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        number = number * 10 + (uint64_t)(*text - '0');
    }
    if (number > most)
        return false;
    *ret = number;
    return true;
}

/* Has the row the mark of its journal, or others? */
static void read_marks(const json_t *item, struct sl_row *row)
{
    const json_t *list = json_object_get(json_object_get(item, "sets"), "SS");

    row->has_marks = json_array_size(list) > 0;
    row->marked = false;
    for (size_t i = 0; row->journal_id && i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));

        if (text && strcmp(text, row->journal_id) == 0)
            row->marked = true;
    }
}

/* The sum of all leases. */
static uint64_t sum_leases(const json_t *item, sl_ns now)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < SL_ROW_LEASES; i++) {
        char name[16];

        snprintf(name, sizeof(name), "lease%u", i);
        sum = sl_add_sat(
            sum,
            sl_row_read_lease(text_of(json_object_get(item, name), "S"), now));
    }
    return sum < SL_AMOUNT_MAX ? sum : SL_AMOUNT_MAX;
}

/* Returns false if the values are not ours. An item without them counts as not
 * found. */
static bool read_row(const json_t *item, struct sl_row *row, sl_ns now)
{
    const char *name = row->is_window ? "count" : "cell0";
    uint64_t first, second = 0;

    row->found = false;
    row->cell = sl_cell_of(0, 0);
    read_marks(item, row);
    row->leased = item ? sum_leases(item, now) : 0;
    if (!json_object_get(item, name))
        return true;
    if (!read_number(item, name,
                     row->is_window ? SL_AMOUNT_MAX
                                    : (UINT64_C(1) << SL_CELL_W0_BITS) - 1,
                     &first))
        return false;
    if (!row->is_window &&
        !read_number(item, "cell1", (UINT64_C(1) << SL_CELL_W1_BITS) - 1,
                     &second))
        return false;
    row->found = true;
    row->cell =
        row->is_window ? sl_row_cell(first, now) : sl_cell_of(first, second);
    return true;
}

static bool is_of(const json_t *item, const struct sl_row *row)
{
    const json_t *name = json_object_get(json_object_get(item, "userId"), "S");

    return json_is_string(name) && json_string_length(name) == row->name.len &&
           memcmp(json_string_value(name), row->name.at, row->name.len) == 0 &&
           strcmp(text_of(json_object_get(item, "dataType"), "S"), row->sort) ==
               0;
}

/* BatchGetItem: in any order, under the table's name. */
static bool read_batch(const json_t *tables, struct sl_row *rows,
                       unsigned count, sl_ns now)
{
    json_t *list =
        json_object_iter_value(json_object_iter((json_t *)(uintptr_t)tables));
    bool good = true;

    for (unsigned i = 0; i < count; i++) {
        const json_t *item = NULL;

        for (size_t k = 0; k < json_array_size(list) && !item; k++)
            if (is_of(json_array_get(list, k), &rows[i]))
                item = json_array_get(list, k);
        good = read_row(item, &rows[i], now) && good;
    }
    return good;
}

static enum sl_dynamo_status read_rows(const json_t *root, struct sl_row *rows,
                                       unsigned count, sl_ns now,
                                       bool *ret_has_rows)
{
    const json_t *tables = json_object_get(root, "Responses");
    const json_t *left = json_object_get(root, "UnprocessedKeys");
    const json_t *item = json_object_get(root, "Attributes");
    bool good;

    if (json_object_size(left) > 0)
        return SL_THROTTLED;
    item = item ? item : json_object_get(root, "Item");
    *ret_has_rows = tables || item;
    good = tables ? read_batch(tables, rows, count, now)
                  : count == 0 || read_row(item, &rows[0], now);
    return good ? SL_DYNAMO_ANSWERED : SL_REFUSED;
}

static json_t *load(struct sl_str body)
{
    return json_loadb(body.at ? body.at : "", body.len,
                      JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
}

enum sl_dynamo_status sl_dynamo_reply_read(int status, struct sl_str body,
                                           struct sl_row *rows, unsigned count,
                                           sl_ns now, bool *ret_has_rows,
                                           char why[SL_REPLY_WHY])
{
    json_t *root = load(body);
    enum sl_dynamo_status answered;

    *ret_has_rows = false;
    why[0] = '\0';
    if (status == 200 && json_is_object(root)) {
        answered = read_rows(root, rows, count, now, ret_has_rows);
        if (answered == SL_REFUSED)
            snprintf(why, SL_REPLY_WHY, "a row was not written by Sluice");
    } else {
        answered = status == 200 ? SL_UNSURE : meaning_of(status, root);
        quote(status, root, why);
        if (answered == SL_UNMET && count == 1 && json_object_get(root, "Item"))
            *ret_has_rows =
                read_row(json_object_get(root, "Item"), &rows[0], now);
    }
    json_decref(root);
    return answered;
}

enum sl_dynamo_status sl_dynamo_texts(int status, struct sl_str body,
                                      struct sl_dynamo_text *texts,
                                      unsigned count, bool *ret_found,
                                      char why[SL_REPLY_WHY])
{
    json_t *root = load(body);
    const json_t *item = json_object_get(root, "Item");
    enum sl_dynamo_status answered = SL_DYNAMO_ANSWERED;

    why[0] = '\0';
    if (status != 200 || !json_is_object(root)) {
        answered = status == 200 ? SL_UNSURE : meaning_of(status, root);
        quote(status, root, why);
    }
    *ret_found = answered == SL_DYNAMO_ANSWERED && json_is_object(item);
    for (unsigned i = 0; i < count; i++) {
        const json_t *value = json_object_get(
            *ret_found ? json_object_get(item, texts[i].name) : NULL, "S");

        texts[i].found = json_is_string(value);
        snprintf(texts[i].out, texts[i].size, "%s",
                 texts[i].found ? json_string_value(value) : "");
    }
    json_decref(root);
    return answered;
}

/* ---- clock skew ---- */

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

/* `len` digits. */
static bool number_at(struct sl_str text, size_t at, size_t len, int64_t most,
                      int64_t *ret)
{
    *ret = 0;
    for (size_t i = at; i < at + len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        *ret = *ret * 10 + (text.at[i] - '0');
    }
    return *ret <= most;
}

static int64_t month_at(struct sl_str text, size_t at)
{
    for (int64_t i = 0; i < 12; i++)
        if (memcmp(text.at + at, months + 3 * i, 3) == 0)
            return i + 1;
    return 0;
}

int sl_date_read(struct sl_str text, sl_ns *ret)
{
    int64_t day, year, hour, minute, second, month, days;

    if (text.len != 29 || memcmp(text.at + 25, " GMT", 4) != 0)
        return SLUICE_ECONF;
    month = month_at(text, 8);
    if (month == 0 || !number_at(text, 5, 2, 31, &day) || day == 0 ||
        !number_at(text, 12, 4, 2115, &year) || year < 1970 ||
        !number_at(text, 17, 2, 23, &hour) ||
        !number_at(text, 20, 2, 59, &minute) ||
        !number_at(text, 23, 2, 60, &second))
        return SLUICE_ECONF;
    days = sl_days_from_civil(year, month, day);
    *ret = days * SL_DAY + hour * SL_HOUR + minute * SL_MIN + second * SL_S;
    return 0;
}

void sl_skew_note(struct sl_skew *skew, sl_ns date, sl_ns sent, sl_ns received)
{
    sl_ns least = date - received, most = date + SL_S - sent;

    if (skew->known && least < skew->most && most > skew->least) {
        skew->least = least > skew->least ? least : skew->least;
        skew->most = most < skew->most ? most : skew->most;
        return;
    }
    *skew = (struct sl_skew){true, least, most};
}

sl_ns sl_skew_of(const struct sl_skew *skew)
{
    if (!skew->known)
        return 0;
    if (skew->least > 0)
        return skew->least;
    return skew->most < 0 ? skew->most : 0;
}
