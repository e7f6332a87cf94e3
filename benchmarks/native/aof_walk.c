/* What a C programmer gets from one plain loop: walks a mapped append-only log, takes of every command its name's first letter, the slot
 * of its first word after the name (byte-table CRC16, hash tags) and its bytes, and adds them up by slot.  It trusts the file: no bound is
 * checked; the answer is "commands bytes checksum". */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint16_t table[256];
static uint64_t counts[16384], sizes[16384];

static unsigned slot_of(const unsigned char *key, uint64_t length) {
    uint64_t first = 0, last = length, open = 0, close;
    while (open < length && key[open] != '{') open++;
    for (close = open + 1; close < length && key[close] != '}'; close++) {}
    if (close < length && close > open + 1) { first = open + 1; last = close; }
    uint16_t crc = 0;
    for (; first < last; first++) crc = (uint16_t)(crc << 8) ^ table[(crc >> 8) ^ key[first]];
    return crc & 16383;
}

static const unsigned char *number(const unsigned char *at, uint64_t *value) {
    *value = 0;
    while (*at != '\r') *value = *value * 10 + (*at++ - '0');
    return at + 2;
}

int main(int argc, char **argv) {
    struct stat about;
    int file = argc == 2 ? open(argv[1], O_RDONLY) : -1;
    if (file < 0 || fstat(file, &about)) return 1;
    const unsigned char *at = mmap(0, about.st_size, PROT_READ, MAP_PRIVATE, file, 0), *end = at + about.st_size;
    if (at == MAP_FAILED) return 1;
    for (int byte = 0; byte < 256; byte++) {
        uint16_t crc = byte << 8;
        for (int bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
        table[byte] = crc;
    }
    uint64_t commands = 0, letters = 0, check = 0;
    while (at < end) {
        const unsigned char *begin = at;
        uint64_t words, length;
        unsigned slot = 0;
        if (*at == '#') { while (*at++ != '\n') {} continue; }
        at = number(at + 1, &words);
        for (uint64_t word = 0; word < words; word++) {
            at = number(at + 1, &length);
            if (word == 0) letters += *at;
            if (word == 1) slot = slot_of(at, length);
            at += length + 2;
        }
        counts[slot]++;
        sizes[slot] += at - begin;
        commands++;
    }
    for (int slot = 0; slot < 16384; slot++) check += counts[slot] * slot + sizes[slot];
    printf("%lu %lu %lu\n", commands, (unsigned long)about.st_size, check + letters);
    return 0;
}
