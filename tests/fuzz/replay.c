/* Runs a fuzz target on every file of a folder, so every machine and compiler tests the finds of
   fuzzing. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The files of a corpus are small. */
static uint8_t data[1 << 20];

static int run(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return 0;
    size_t n = fread(data, 1, sizeof data, f);
    int ok = !ferror(f);
    fclose(f);
    if (!ok) /* a folder */
        return 0;
    uint8_t *exact = malloc(n ? n : 1);
    if (!exact)
        return 0;
    for (size_t i = 0; i < n; i++)
        exact[i] = data[i];
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return 1;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    int n = 0;
    for (struct dirent *e; (e = readdir(folder));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], e->d_name);
        n += run(path);
    }
    closedir(folder);
    printf("%d inputs\n", n);
    return n ? 0 : 1;
}
