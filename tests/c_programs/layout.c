#include "layout.h"

CHECK(sizeof(RPCHeader) == 24 && _Alignof(RPCHeader) == 1);
CHECK(sizeof(RPCResponse) == 24 && _Alignof(RPCResponse) == 1);
AT(RPCHeader, ptp_timestamp, 16);
AT(RPCResponse, status, 4);

int main(void) { return 0; }
