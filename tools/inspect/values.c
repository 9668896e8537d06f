#include "values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tools/cli/cli.h"

static void put_number(const struct tft_value *v, uint64_t i, bool json)
{
    uint64_t u;
    int64_t n;
    double x = 0;
    if (v->type == TFT_VALUE_BOOL && tft_value_uint(v, i, &u))
        fputs(u ? "true" : "false", stdout);
    else if (tft_value_uint(v, i, &u))
        printf("%" PRIu64, u);
    else if (tft_value_int(v, i, &n))
        printf("%" PRId64, n);
    else if (tft_value_real(v, i, &x) && json && !isfinite(x))
        fputs("null", stdout);
    else
        printf("%.*g", !json ? 6 : v->type == TFT_VALUE_F32 ? 9 : 17, x);
}

static void put_string(struct tft_str s, bool json, bool quoted)
{
    if (json) {
        cli_json_string(stdout, s.p, s.n);
        return;
    }
    fputs(quoted ? "\"" : "", stdout);
    cli_put_escaped(stdout, s.p, s.n);
    fputs(quoted ? "\"" : "", stdout);
}

void values_print_elements(const struct tft_value *v, uint64_t most, bool json)
{
    const unsigned char *next = v->data;
    for (uint64_t i = 0; i < v->n && i < most; i++) {
        fputs(!i ? "" : json ? "," : ", ", stdout);
        if (v->type == TFT_VALUE_STRING)
            put_string(tft_value_next_str(&next), json, v->is_array);
        else
            put_number(v, i, json);
    }
    if (v->n > most)
        fputs(", ...", stdout);
}

void values_print(const struct tft_source *s)
{
    enum { SHOWN = 8 };
    for (size_t i = 0; i < s->n_value; i++) {
        const struct tft_value *v = &s->value[i];
        char type[40];
        snprintf(type, sizeof type, v->is_array ? "%s[%" PRIu64 "]" : "%s",
                 tft_value_type_name(v->type), v->n);
        printf("%-15s ", type);
        cli_put_escaped(stdout, v->key.p, v->key.n);
        fputs(" = ", stdout);
        values_print_elements(v, SHOWN, false);
        putchar('\n');
    }
}

void values_print_json(const struct tft_source *s)
{
    putchar('{');
    for (size_t i = 0; i < s->n_value; i++) {
        const struct tft_value *v = &s->value[i];
        fputs(i ? "," : "", stdout);
        cli_json_string(stdout, v->key.p, v->key.n);
        fputs(v->is_array ? ":[" : ":", stdout);
        values_print_elements(v, UINT64_MAX, true);
        fputs(v->is_array ? "]" : "", stdout);
    }
    putchar('}');
}
