#include "renderer.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace shoal_mujoco {
namespace {

// The part of EGL 1.5 and of its extension for devices that is used here. Declared by hand, so that
// a build does not need EGL's headers.
struct Egl {
  using Function = void (*)();
  Function (*get_function)(const char* name);
  unsigned (*initialize)(void* display, int* major, int* minor);
  unsigned (*choose_config)(void* display, const int* wanted, void** configs, int size, int* found);
  unsigned (*bind_api)(unsigned api);
  void* (*create_context)(void* display, void* config, void* share, const int* attributes);
  unsigned (*destroy_context)(void* display, void* context);
  unsigned (*make_current)(void* display, void* draw, void* read, void* context);
  unsigned (*query_devices)(int size, void** devices, int* found);
  void* (*get_platform_display)(unsigned platform, void* device, const int* attributes);
};
constexpr int kSurfaceType = 0x3033, kPbufferBit = 0x0001;
constexpr int kRenderableType = 0x3040, kOpenglBit = 0x0008;
constexpr int kRedSize = 0x3024, kGreenSize = 0x3023, kBlueSize = 0x3022, kAlphaSize = 0x3021;
constexpr int kDepthSize = 0x3025, kStencilSize = 0x3026, kNone = 0x3038;
constexpr unsigned kOpenglApi = 0x30A2, kPlatformDevice = 0x313F;

Egl load_egl() {
  void* library = dlopen("libEGL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw std::runtime_error(std::string("libEGL.so.1 cannot be loaded (") + dlerror() +
                             "); install EGL, e.g. the packages libegl1 and libgl1-mesa-dri");
  Egl egl;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr)
      throw std::runtime_error(std::string("libEGL.so.1 has no function ") + name);
  };
  find(egl.get_function, "eglGetProcAddress");
  find(egl.initialize, "eglInitialize");
  find(egl.choose_config, "eglChooseConfig");
  find(egl.bind_api, "eglBindAPI");
  find(egl.create_context, "eglCreateContext");
  find(egl.destroy_context, "eglDestroyContext");
  find(egl.make_current, "eglMakeCurrent");
  const auto find_extension = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(egl.get_function(name));
    if (function == nullptr)
      throw std::runtime_error(std::string("libEGL.so.1 has no extension ") + name);
  };
  find_extension(egl.query_devices, "eglQueryDevicesEXT");
  find_extension(egl.get_platform_display, "eglGetPlatformDisplayEXT");
  return egl;
}

const Egl& egl() {
  static const Egl kEgl = load_egl();
  return kEgl;
}

// The process that has had a context; 0: none yet.
std::atomic<pid_t> drawing_process = 0;

// The display of the first device that can be initialized: a GPU or Mesa's software renderer.
void* open_display() {
  int found = 0;
  egl().query_devices(0, nullptr, &found);
  std::vector<void*> devices(static_cast<size_t>(found));
  egl().query_devices(found, devices.data(), &found);
  for (void* device : devices) {
    void* display = egl().get_platform_display(kPlatformDevice, device, nullptr);
    if (display != nullptr && egl().initialize(display, nullptr, nullptr)) return display;
  }
  throw std::runtime_error("EGL found no device that draws, out of " + std::to_string(found) +
                           "; install a driver, e.g. the package libgl1-mesa-dri");
}

void* create_context(void* display) {
  const int wanted[] = {kSurfaceType, kPbufferBit, kRenderableType, kOpenglBit, kRedSize,   8,
                        kGreenSize,   8,           kBlueSize,       8,          kAlphaSize, 8,
                        kDepthSize,   24,          kStencilSize,    8,          kNone};
  void* config = nullptr;
  int found = 0;
  void* context = nullptr;
  if (egl().choose_config(display, wanted, &config, 1, &found) && found == 1 &&
      egl().bind_api(kOpenglApi))
    context = egl().create_context(display, config, nullptr, nullptr);
  if (context == nullptr)
    throw std::runtime_error("the driver found by EGL gives no OpenGL context for RGBA of 8 bits");
  return context;
}

void refuse_copies() {
  if (drawing_process != 0 && drawing_process != getpid())
    throw std::runtime_error(
        "process " + std::to_string(drawing_process) +
        " had drawn before it forked this one, and a driver's threads are not copied; draw in a "
        "process that is forked before the first picture");
}

}  // namespace

Context::Context() {
  refuse_copies();
  drawing_process = getpid();
  display_ = open_display();
  context_ = create_context(display_);
}

Context::~Context() {
  if (of_this_process()) egl().destroy_context(display_, context_);
}

bool Context::of_this_process() const { return getpid() == drawing_process; }

bool Context::try_bind() {
  return of_this_process() && egl().make_current(display_, nullptr, nullptr, context_) != 0;
}

void Context::bind() {
  refuse_copies();
  if (!try_bind())
    throw std::runtime_error("EGL cannot draw without a surface (EGL_KHR_surfaceless_context)");
}

void Context::release() { egl().make_current(display_, nullptr, nullptr, nullptr); }

Renderer::Renderer(const mjModel* model) : model_(model) {
  mjv_defaultFreeCamera(model_, &camera_);
  const int track = mj_name2id(model_, mjOBJ_CAMERA, "track");
  if (track >= 0) {
    camera_.type = mjCAMERA_FIXED;
    camera_.fixedcamid = track;
  }
  mjv_defaultOption(&options_);
  mjv_defaultScene(&scene_);
  mjr_defaultContext(&buffers_);
  context_.bind();
  constexpr int kGeoms = 1000;
  mjv_makeScene(model_, &scene_, kGeoms);
  mjr_makeContext(model_, &buffers_, mjFONTSCALE_100);
  mjr_setBuffer(mjFB_OFFSCREEN, &buffers_);
  context_.release();
}

Renderer::~Renderer() {
  mjv_freeScene(&scene_);
  if (!context_.try_bind()) return;
  mjr_freeContext(&buffers_);
  context_.release();
}

void Renderer::draw(mjData* data, int height, int width, unsigned char* rgb) {
  if (width > buffers_.offWidth || height > buffers_.offHeight)
    throw std::runtime_error("a picture of " + std::to_string(width) + "x" +
                             std::to_string(height) + " is larger than the model's " +
                             std::to_string(buffers_.offWidth) + "x" +
                             std::to_string(buffers_.offHeight));
  const mjrRect all{0, 0, width, height};
  context_.bind();
  mjv_updateScene(model_, data, &options_, nullptr, &camera_, mjCAT_ALL, &scene_);
  mjr_render(all, &scene_, &buffers_);
  mjr_readPixels(rgb, nullptr, all, &buffers_);
  context_.release();
  // OpenGL's first row is the lowest.
  const int row = 3 * width;
  for (int top = 0, low = height - 1; top < low; ++top, --low)
    std::swap_ranges(rgb + top * row, rgb + (top + 1) * row, rgb + low * row);
}

}  // namespace shoal_mujoco
