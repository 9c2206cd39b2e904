#include "CPresets.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char starter[] = {
#embed "../../gateway.yaml"
};

static const unsigned char sandbox[] = {
#embed "../../sandbox.yaml"
};

static const unsigned char config_keys[] = {
#embed "../../schema/keys.json"
};

const unsigned char *authgateway_starter(size_t *length) {
    *length = sizeof starter;
    return starter;
}

const unsigned char *authgateway_sandbox(size_t *length) {
    *length = sizeof sandbox;
    return sandbox;
}

const unsigned char *authgateway_config_keys(size_t *length) {
    *length = sizeof config_keys;
    return config_keys;
}
