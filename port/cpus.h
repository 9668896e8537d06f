/* The cores that Linux describes in a folder of files. For port/ alone. */
#ifndef TFT_CPUS_H
#define TFT_CPUS_H

#include "port.h"

/*
 * Sets out->cores and out->fast for the n CPUs with the numbers id[n], ascending. folder:
 * /sys/devices/system/cpu, or a folder of the same form. Never fails: a file that is missing, or
 * has something else than Linux writes there, tells nothing.
 *
 * - CPUs that topology/thread_siblings_list puts together are one core.
 * - A core with less than half of the highest cpu_capacity is slow.
 * - If no capacities differ, a core with less than 4/5 of the highest cpufreq/cpuinfo_max_freq is
 *   slow. The bound is higher, because slow cores also do less in each cycle. The clocks of equal
 *   cores differ by less.
 */
void tft_cpus_count(struct tft_cpus *out, const char *folder, const int *id, int n);

#endif
