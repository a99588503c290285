/* cache_control.c -- how long an answer may be kept, row by row. */
#include "wire/http_fields.h"

#include <stdlib.h>

#include "check.h"

#define NONE SL_NS_NONE
#define MOST (10 * 365 * 86400 * SL_S)

static const struct {
    const char *field;
    sl_ns life;
} rows[] = {
    {"",                                            NONE      },
    {"max-age=600",                                 600 * SL_S},
    {"Max-Age=600",                                 600 * SL_S},
    {"public, max-age=600",                         600 * SL_S},
    {"max-age=600,must-revalidate",                 600 * SL_S},
    {" max-age=600 \t",                             600 * SL_S},
    {"max-age=\"600\"",                             600 * SL_S},
    {"max-age=0",                                   0         },
    {"max-age=00060",                               60 * SL_S },
    {"max-age=600, max-age=60",                     60 * SL_S },
    {"no-store",                                    0         },
    {"No-Cache, max-age=600",                       0         },
    {"no-cache=\"set-cookie\"",                     NONE      },
    {"max-age",                                     NONE      },
    {"max-age=",                                    NONE      },
    {"max-age=-1",                                  NONE      },
    {"max-age=6e2",                                 NONE      },
    {"max-age= 600",                                NONE      },
    {"max-age=600.5",                               NONE      },
    {"s-maxage=600",                                NONE      },
    {"x-max-age=600",                               NONE      },
    {"max-ages=600",                                NONE      },
    {"ext=\"a, max-age=1\", max-age=600",           600 * SL_S},
    {"ext=\"a\\\", max-age=1\", max-age=600",       600 * SL_S},
    {"ext=\"open, max-age=1",                       NONE      },
    {",,, ,max-age=600",                            600 * SL_S},
    {"max-age=315360000",                           MOST      },
    {"max-age=315360001",                           MOST      },
    {"max-age=99999999999999999999999999999999999", MOST      },
};

/* What was handed in is all that is read: each field in a piece of its own
 * size, for the sanitizers. */
int main(void)
{
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        size_t len = strlen(rows[i].field);
        char *copy = malloc(len + (len == 0));

        if (!copy)
            abort();
        memcpy(copy, rows[i].field, len);
        CASE(rows[i].field[0] ? rows[i].field : "nothing");
        CHECK_EQ(sl_cache_control_life((struct sl_str){copy, len}),
                 rows[i].life);
        free(copy);
    }
    return CHECK_DONE();
}
