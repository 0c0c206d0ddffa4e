#define SDL_MAIN_HANDLED
#include <SDL.h>

#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>

#include "cli/frame_sink.h"

namespace shoal::cli {
namespace {

// A resizable window. Closing it acts as Ctrl-C.
class SdlWindow : public FrameSink {
 public:
  ~SdlWindow() override {
    texture_.reset();
    renderer_.reset();
    window_.reset();
    SDL_Quit();
  }

  void show(const Image& image) override {
    if (window_ == nullptr) open(image);
    SDL_UpdateTexture(texture_.get(), nullptr, image.rgb.data(), 3 * image.width);
    SDL_RenderClear(renderer_.get());
    SDL_RenderCopy(renderer_.get(), texture_.get(), nullptr, nullptr);
    SDL_RenderPresent(renderer_.get());
    for (SDL_Event event; SDL_PollEvent(&event) != 0;)
      if (event.type == SDL_QUIT) std::raise(SIGINT);
  }

 private:
  template <class T>
  struct Destroy {
    void (*destroy)(T*);
    void operator()(T* thing) const { destroy(thing); }
  };
  template <class T>
  using Owned = std::unique_ptr<T, Destroy<T>>;
  template <class T>
  static Owned<T> owned(T* thing, void (*destroy)(T*)) {
    if (thing == nullptr)
      throw std::runtime_error(std::string("cannot open a window: ") + SDL_GetError());
    return {thing, {destroy}};
  }

  void open(const Image& image) {
    const int times = enlargement(image);
    window_ =
        owned(SDL_CreateWindow("shoal", SDL_WINDOWPOS_CENTERED, SDL_WINDOWPOS_CENTERED,
                               times * image.width, times * image.height, SDL_WINDOW_RESIZABLE),
              SDL_DestroyWindow);
    renderer_ = owned(SDL_CreateRenderer(window_.get(), -1, 0), SDL_DestroyRenderer);
    SDL_RenderSetLogicalSize(renderer_.get(), image.width, image.height);
    texture_ = owned(SDL_CreateTexture(renderer_.get(), SDL_PIXELFORMAT_RGB24,
                                       SDL_TEXTUREACCESS_STREAMING, image.width, image.height),
                     SDL_DestroyTexture);
  }

  Owned<SDL_Window> window_{nullptr, {SDL_DestroyWindow}};
  Owned<SDL_Renderer> renderer_{nullptr, {SDL_DestroyRenderer}};
  Owned<SDL_Texture> texture_{nullptr, {SDL_DestroyTexture}};
};

}  // namespace

std::unique_ptr<FrameSink> make_window() {
  SDL_SetMainReady();
  SDL_SetHint(SDL_HINT_NO_SIGNAL_HANDLERS, "1");  // the command installs its own handlers
  if (SDL_Init(SDL_INIT_VIDEO) != 0) return nullptr;
  return std::make_unique<SdlWindow>();
}

}  // namespace shoal::cli
