/* A CUDA driver for tests: one GPU of the compute capability FAKE_CAPABILITY (10 times), or none. */
int cuInit(unsigned flags) { return flags || FAKE_CAPABILITY ? 0 : 100; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int index) { return *device = index, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  return *value = attribute == 75 ? FAKE_CAPABILITY / 10 : FAKE_CAPABILITY % 10, device;
}
int cuGetErrorString(int code, const char **text) { return *text = "no CUDA-capable device is detected", code - 100; }
int cuDeviceGetName(char *name, int size, int device) {
  const char *from = "Example 80";
  while (size-- > 1 && *from)
    *name++ = *from++;
  return *name = 0, device;
}
