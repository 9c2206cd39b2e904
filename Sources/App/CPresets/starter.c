#include "CPresets.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char starter[] = {
#embed "../../../gateway.yaml"
};

static const unsigned char sandbox[] = {
#embed "../../../sandbox.yaml"
};

const unsigned char *authgateway_starter(size_t *length) {
    *length = sizeof starter;
    return starter;
}

const unsigned char *authgateway_sandbox(size_t *length) {
    *length = sizeof sandbox;
    return sandbox;
}
