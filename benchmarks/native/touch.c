/* The machine's own limit: reads a file through a window of 8 MiB and adds every 8-byte word.  Prints the sum. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 8 << 20 };

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    int file = open(argv[1], O_RDONLY);
    unsigned char *window = malloc(WINDOW);
    if (file < 0 || !window) return 1;
    uint64_t sum = 0, word;
    ssize_t got;
    while ((got = read(file, window, WINDOW)) > 0)
        for (ssize_t at = 0; at + 8 <= got; at += 8) {
            memcpy(&word, window + at, 8);
            sum += word;
        }
    printf("%llu\n", (unsigned long long)sum);
    return got < 0;
}
