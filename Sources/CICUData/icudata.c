#include <stdint.h>

// The archive of ICU data, empty (ICU: the header of udata.h, then a table of contents). docs/internals/adr/0027.
//
// ICU's own archive is 34 MB, two fifths of the program: languages, calendars and collations, none of which a gateway uses.
// The linker takes this one because it comes before the libraries. The name holds the ICU version of the toolchain: with another
// one this is not used, and the program is larger.

struct UDataInfo {
    uint16_t size, reservedWord;
    uint8_t isBigEndian, charsetFamily, sizeofUChar, reservedByte;
    uint8_t dataFormat[4], formatVersion[4], dataVersion[4];
};

const struct {
    uint16_t headerSize;
    uint8_t magic1, magic2;
    struct UDataInfo info;
    uint8_t padding[8];
    uint32_t count;
} icudt76_dat __attribute__((aligned(16))) = {
    .headerSize = 32,
    .magic1 = 0xda,
    .magic2 = 0x27,
    .info = {
        .size = sizeof(struct UDataInfo),
        .isBigEndian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
        .sizeofUChar = 2,
        .dataFormat = {'C', 'm', 'n', 'D'},
        .formatVersion = {1},
        .dataVersion = {76, 1},
    },
    .count = 0,
};
