/* What a C programmer gets from one plain loop: walks a mapped RDB file of the types that redis-server 7.0 and Valkey 9.1 write
 * by default, takes every key's slot (byte-table CRC16, hash tags), type, element count where one length says it, size and expiry, and
 * adds them up.  It trusts the file: no bound is checked, no CRC, no answer but the totals "keys expires bytes checksum". */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint16_t table[256];
static const unsigned char *at;
static int encoded;

static uint64_t read_length(void) {
    unsigned char first = *at++;
    uint64_t value;
    encoded = 0;
    switch (first >> 6) {
    case 0: return first & 63;
    case 1: return (uint64_t)(first & 63) << 8 | *at++;
    case 3: encoded = 1; return first & 63;
    }
    if (first == 0x80) { uint32_t word; memcpy(&word, at, 4); at += 4; return __builtin_bswap32(word); }
    memcpy(&value, at, 8);
    at += 8;
    return __builtin_bswap64(value);
}

static void skip_string(void) {
    uint64_t length = read_length();
    if (!encoded) { at += length; return; }
    if (length < 3) { at += 1 << length; return; }
    uint64_t packed = read_length();
    read_length();
    at += packed;
}

static void skip_strings(uint64_t count) { while (count--) skip_string(); }

static void skip_module(void) {
    for (uint64_t opcode; (opcode = read_length()) != 0;) {
        if (opcode == 3) at += 4;
        else if (opcode == 4) at += 8;
        else if (opcode == 5) skip_string();
        else read_length();
    }
}

static uint64_t skip_stream(int type) {
    skip_strings(2 * read_length());
    uint64_t elements = read_length();
    read_length(); read_length();
    if (type >= 19) { read_length(); read_length(); read_length(); read_length(); read_length(); }
    for (uint64_t groups = read_length(); groups--;) {
        skip_string(); read_length(); read_length();
        if (type >= 19) read_length();
        for (uint64_t pending = read_length(); pending--;) { at += 24; read_length(); }
        for (uint64_t consumers = read_length(); consumers--;) {
            skip_string(); at += type >= 21 ? 16 : 8;
            at += 16 * read_length();
        }
    }
    return elements;
}

static uint64_t skip_value(int type) {
    uint64_t count;
    switch (type) {
    case 0: skip_string(); return 1;
    case 1: case 2: skip_strings(count = read_length()); return count;
    case 4: skip_strings(2 * (count = read_length())); return count;
    case 5: for (uint64_t left = count = read_length(); left--; at += 8) skip_string(); return count;
    case 7: read_length(); skip_module(); return 1;
    case 9: case 10: case 11: case 12: case 13: case 16: case 17: case 20: skip_string(); return 1;
    case 14: skip_strings(count = read_length()); return count;
    case 18: for (uint64_t left = count = read_length(); left--;) { read_length(); skip_string(); } return count;
    case 15: case 19: case 21: return skip_stream(type);
    }
    fprintf(stderr, "unknown type %d\n", type);
    exit(1);
}

static unsigned slot_of(const unsigned char *key, uint64_t length) {
    const unsigned char *open = memchr(key, '{', length);
    if (open) {
        const unsigned char *close = memchr(open + 1, '}', key + length - open - 1);
        if (close && close > open + 1) { length = close - open - 1; key = open + 1; }
    }
    uint16_t crc = 0;
    while (length--) crc = crc << 8 ^ table[(crc >> 8 ^ *key++) & 255];
    return crc & 16383;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    for (int byte = 0; byte < 256; byte++) {
        uint16_t crc = byte << 8;
        for (int bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
        table[byte] = crc;
    }
    int file = open(argv[1], O_RDONLY);
    struct stat facts;
    if (file < 0 || fstat(file, &facts)) return 1;
    at = mmap(0, facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (at == MAP_FAILED) return 1;
    const unsigned char *record = at += 9;
    uint64_t keys = 0, expires = 0, bytes = 0, mix = 0, expiry = 0;
    for (;;) {
        int opcode = *at++;
        switch (opcode) {
        case 255: printf("%lu %lu %lu %lu\n", keys, expires, bytes, mix); return 0;
        case 254: read_length(); record = at; continue;
        case 253: { uint32_t seconds; memcpy(&seconds, at, 4); at += 4; expiry = seconds * 1000ull; expires++; continue; }
        case 252: memcpy(&expiry, at, 8); at += 8; expires++; continue;
        case 251: read_length(); read_length(); record = at; continue;
        case 250: skip_strings(2); record = at; continue;
        case 249: at++; continue;
        case 248: read_length(); continue;
        case 247: read_length(); read_length(); read_length(); skip_module(); record = at; continue;
        case 245: skip_string(); record = at; continue;
        case 244: read_length(); read_length(); read_length(); record = at; continue;
        }
        uint64_t length = read_length();
        char digits[24];
        const unsigned char *key = at;
        if (encoded) {
            const unsigned char *start = at;
            if (length == 3) { fputs("compressed key\n", stderr); return 1; }
            int64_t value = length == 0 ? *(int8_t *)start : 0;
            if (length == 1) { int16_t word; memcpy(&word, start, 2); value = word; }
            if (length == 2) { int32_t word; memcpy(&word, start, 4); value = word; }
            at += 1 << length;
            length = snprintf(digits, sizeof digits, "%ld", value);
            key = (unsigned char *)digits;
        } else at += length;
        unsigned slot = slot_of(key, length);
        uint64_t elements = skip_value(opcode);
        keys++;
        bytes += at - record;
        mix += slot * 31 + elements + (expiry >> 8) + opcode;
        expiry = 0;
        record = at;
    }
}
