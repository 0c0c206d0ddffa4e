// The two functions of the CUDA driver that fork safety needs, with results set by a test: two
// devices, of which the second may have a context.

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the driver's names

int fake_status = 0;  // CUDA_SUCCESS
int fake_active = 0;

int cuDeviceGetCount(int* count) {
  *count = 2;
  return fake_status;
}

int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = device == 1 ? fake_active : 0;
  return fake_status;
}

// NOLINTEND(readability-identifier-naming)
}  // extern "C"
