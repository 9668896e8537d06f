#include "cpus.h"

#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------- files */

enum { TEXT = 256, LARGEST = 1000000000 };

/* The first line of a file of a CPU, without the newline; false: there is none, or a longer one. */
static bool read_line(char line[TEXT], const char *folder, int cpu, const char *name)
{
    char path[512];
    int len = snprintf(path, sizeof path, "%s/cpu%d/%s", folder, cpu, name);
    FILE *f = len < (int)sizeof path ? fopen(path, "re") : NULL;
    bool found = f && fgets(line, TEXT, f) && (strchr(line, '\n') || feof(f));
    if (f)
        fclose(f);
    if (found)
        line[strcspn(line, "\n")] = 0;
    return found;
}

/* Reads a number of at most LARGEST, and moves *p past the number. */
static bool read_number(const char **p, int *out)
{
    long long n = 0;
    const char *digit = *p;
    for (; *digit >= '0' && *digit <= '9' && n <= LARGEST; digit++)
        n = 10 * n + (*digit - '0');
    if (digit == *p || n > LARGEST)
        return false;
    *p = digit;
    *out = (int)n;
    return true;
}

/* Reads "3" or "0-3". */
static bool read_range(const char **p, int *from, int *to)
{
    if (!read_number(p, from))
        return false;
    *to = *from;
    if (**p != '-')
        return true;
    ++*p;
    return read_number(p, to) && *from <= *to;
}

/* --------------------------------------------------------------------------------------- cores */

/* Whether the list, such as "0,4" or "0-1", has id[i] and one of the numbers before id[i]. */
static bool lists_earlier(const char *list, const int *id, int i)
{
    bool itself = false, earlier = false;
    for (const char *p = list;; p++) {
        int from, to;
        if (!read_range(&p, &from, &to))
            return false;
        itself = itself || (from <= id[i] && id[i] <= to);
        for (int k = 0; k < i; k++)
            earlier = earlier || (from <= id[k] && id[k] <= to);
        if (*p != ',')
            return !*p && itself && earlier;
    }
}

/* Writes one CPU of each core to core[n], and returns the number of cores. */
static int find_cores(int *core, const char *folder, const int *id, int n)
{
    char list[TEXT];
    int cores = 0;
    for (int i = 0; i < n; i++)
        if (!read_line(list, folder, id[i], "topology/thread_siblings_list") ||
            !lists_earlier(list, id, i))
            core[cores++] = id[i];
    return cores;
}

/* --------------------------------------------------------------------------------------- speeds */

/* A number above 0 that is all of a file; 0: there is none. */
static int read_value(const char *folder, int cpu, const char *name)
{
    char line[TEXT];
    const char *p = line;
    int value;
    return read_line(line, folder, cpu, name) && read_number(&p, &value) && !*p ? value : 0;
}

/* Reads the value of each core; false if a core has none, or all have the same. */
static bool read_values(int *value, const char *folder, const int *core, int n, const char *name)
{
    bool differ = false;
    for (int i = 0; i < n; i++) {
        value[i] = read_value(folder, core[i], name);
        if (!value[i])
            return false;
        differ = differ || value[i] != value[0];
    }
    return differ;
}

/* The number of values that are at least `percent` of the largest. */
static int count_high(const int *value, int n, int percent)
{
    int largest = 0, high = 0;
    for (int i = 0; i < n; i++)
        largest = value[i] > largest ? value[i] : largest;
    for (int i = 0; i < n; i++)
        high += (int64_t)value[i] * 100 >= (int64_t)largest * percent;
    return high;
}

void tft_cpus_count(struct tft_cpus *out, const char *folder, const int *id, int n)
{
    enum { CAPACITY = 50, CLOCK = 80 }; /* percent */
    int *core = calloc(2 * (size_t)n, sizeof *core);
    out->cores = out->fast = n;
    if (!core)
        return;
    int *value = core + n, cores = find_cores(core, folder, id, n);
    out->cores = out->fast = cores;
    if (read_values(value, folder, core, cores, "cpu_capacity"))
        out->fast = count_high(value, cores, CAPACITY);
    else if (read_values(value, folder, core, cores, "cpufreq/cpuinfo_max_freq"))
        out->fast = count_high(value, cores, CLOCK);
    free(core);
}
