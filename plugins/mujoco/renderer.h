// Pictures of a simulation, drawn in memory, without a display.
#ifndef SHOAL_PLUGINS_MUJOCO_RENDERER_H_
#define SHOAL_PLUGINS_MUJOCO_RENDERER_H_

#include <mujoco/mujoco.h>

namespace shoal_mujoco {

// An OpenGL context of EGL. libEGL is loaded with the first one, so that only rendering needs it.
//
// A driver may have threads, which fork() does not copy: once a process has a context, the
// processes that it forks can neither use it nor make others. The constructor and
// bind() throw std::runtime_error.
class Context {
 public:
  Context();
  ~Context();  // does nothing in a forked process
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Makes this the context of the calling thread, or none. try_bind() returns whether it could.
  void bind();
  bool try_bind();
  void release();

 private:
  bool of_this_process() const;
  void* display_;
  void* context_;
};

// Draws with the model's camera named "track", otherwise with the free camera.
class Renderer {
 public:
  explicit Renderer(const mjModel* model);  // Throws std::runtime_error.
  ~Renderer();
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;

  // Writes rgb [height, width, 3], from the top. Throws std::runtime_error, also if the size is
  // larger than the model's offscreen buffer.
  void draw(mjData* data, int height, int width, unsigned char* rgb);

 private:
  const mjModel* model_;
  Context context_;
  mjvCamera camera_;
  mjvOption options_;
  mjvScene scene_;
  mjrContext buffers_;
};

}  // namespace shoal_mujoco

#endif  // SHOAL_PLUGINS_MUJOCO_RENDERER_H_
