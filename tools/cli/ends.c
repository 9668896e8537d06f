/* Numbers at the ends of their ranges: a session's share beside the share at calibration. */
#include "cli.h"

#include <math.h>

double cli_session_ends(const struct tft_session *s)
{
    struct tft_ends ends;
    bool counts = tft_session_ends(s, &ends) && ends.numbers;
    return counts ? (double)ends.at_ends / (double)ends.numbers : NAN;
}

bool cli_ends_unlike(double share, double calibrated)
{
    return share > 0.001 && share > 10 * calibrated;
}

bool cli_unlike_calibration(const struct tft_model *m, const struct tft_session *s)
{
    return cli_ends_unlike(cli_session_ends(s), tft_calibrated_ends(m));
}

void cli_ends_json(FILE *f, const struct tft_model *m, const struct tft_session *s)
{
    struct tft_ends ends;
    double calibrated = tft_calibrated_ends(m);
    if (!tft_session_ends(s, &ends) || !ends.numbers) {
        fputs("null", f);
        return;
    }
    fprintf(f, "{\"numbers\":%llu,\"at_ends\":%llu,\"calibrated\":",
            (unsigned long long)ends.numbers, (unsigned long long)ends.at_ends);
    fprintf(f, isnan(calibrated) ? "null}" : "%.6g}", calibrated);
}
