#include "CPresets.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

// Each file is a mapping of names to presets, so one after the other they are one mapping. A test compares this list with the folder.
static const unsigned char presets[] = {
#embed "presets/box.yaml"
    ,
#embed "presets/github.yaml"
    ,
#embed "presets/openai.yaml"
};

const unsigned char *authgateway_presets(size_t *length) {
    *length = sizeof presets;
    return presets;
}
