#include "cli/chart.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/runners/files.h"

namespace shoal::cli {
namespace {

using Colour = std::array<double, 3>;

constexpr double kWidth = 760, kHeight = 360;                       // without the legend
constexpr double kLeft = 64, kRight = 20, kTop = 48, kBottom = 52;  // margins
constexpr double kLegendRow = 18;
constexpr double kPngScale = 2;  // pixels per unit
constexpr Colour kText{0.46, 0.50, 0.56}, kGrid{0.55, 0.58, 0.62};
constexpr std::array<Colour, 6> kColours = {{{0.18, 0.51, 0.97},
                                             {0.88, 0.46, 0.17},
                                             {0.25, 0.64, 0.30},
                                             {0.65, 0.40, 0.85},
                                             {0.83, 0.28, 0.37},
                                             {0.16, 0.65, 0.65}}};

std::string short_number(double number) {
  if (std::abs(number) >= 1e6) return number_text(number / 1e6) + "M";
  if (std::abs(number) >= 1e3) return number_text(number / 1e3) + "k";
  return number_text(number);
}

// A cairo surface that is written to a file at the end.
class Page {
 public:
  Page(const std::filesystem::path& file, double height)
      : file_(file), png_(file.extension() == ".png"), surface_(make_surface(file, height)) {
    cairo_ = cairo_create(surface_);
    if (png_) {
      cairo_scale(cairo_, kPngScale, kPngScale);
      cairo_set_source_rgb(cairo_, 1, 1, 1);
      cairo_paint(cairo_);
    }
    cairo_select_font_face(cairo_, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_line_join(cairo_, CAIRO_LINE_JOIN_ROUND);
  }
  ~Page() {
    cairo_destroy(cairo_);
    cairo_surface_destroy(surface_);
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  cairo_t* get() const { return cairo_; }
  void colour(const Colour& c, double alpha = 1) {
    cairo_set_source_rgba(cairo_, c[0], c[1], c[2], alpha);
  }
  // `share`: the fraction of the text's width that lies left of x.
  void text(const std::string& text, double x, double y, double share, double size = 13) {
    cairo_set_font_size(cairo_, size);
    cairo_text_extents_t extents;
    cairo_text_extents(cairo_, text.c_str(), &extents);
    cairo_move_to(cairo_, x - share * extents.x_advance, y);
    cairo_show_text(cairo_, text.c_str());
  }
  void line(double x1, double y1, double x2, double y2, double width) {
    cairo_set_line_width(cairo_, width);
    cairo_move_to(cairo_, x1, y1);
    cairo_line_to(cairo_, x2, y2);
    cairo_stroke(cairo_);
  }
  void finish() {
    auto status = cairo_status(cairo_);
    if (status == CAIRO_STATUS_SUCCESS && png_)
      status = cairo_surface_write_to_png_stream(surface_, append, &content_);
    cairo_surface_finish(surface_);
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface_);
    require(status == CAIRO_STATUS_SUCCESS, "cannot draw {}: {}", file_.string(),
            cairo_status_to_string(status));
    write_file(file_, content_);
  }

 private:
  static cairo_status_t append(void* content, const unsigned char* bytes, unsigned n) {
    static_cast<std::string*>(content)->append(reinterpret_cast<const char*>(bytes), n);
    return CAIRO_STATUS_SUCCESS;
  }

  cairo_surface_t* make_surface(const std::filesystem::path& file, double height) {
    if (file.extension() == ".svg")
      return cairo_svg_surface_create_for_stream(append, &content_, kWidth, height);
    require(file.extension() == ".png", "cannot draw '{}': expected a name ending in .png or .svg",
            file.string());
    return cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(kPngScale * kWidth),
                                      static_cast<int>(kPngScale * height));
  }

  std::string content_;  // of the output file
  std::filesystem::path file_;
  bool png_;
  cairo_surface_t* surface_;
  cairo_t* cairo_;
};

// The area between the axes.
class Plot {
 public:
  Plot(const std::vector<Curve>& curves, const ChartOptions& options) {
    double low = options.goal.value_or(curves[0].mean[0]), high = low;
    const auto include = [&](const std::vector<double>& ys) {
      for (const double y : ys) {
        low = std::min(low, y);
        high = std::max(high, y);
      }
    };
    for (const auto& curve : curves) {
      last_x_ = std::max(last_x_, curve.x.back());
      for (const auto* ys : {&curve.mean, &curve.low, &curve.high}) include(*ys);
      for (const auto& run : curve.lines) {
        last_x_ = std::max(last_x_, run.x.back());
        include(run.y);
      }
    }
    require(last_x_ > 0, "column '{}' has no value above 0; choose another one with --x",
            options.x_label);
    // The y axis ends at round numbers, the x axis at the end of the longest curve.
    const double size = std::max(1.0, std::abs(low));
    if (high - low < 1e-6 * size) high = low + size / 10;  // all values are equal
    rows_ = ticks(low, high);
    columns_ = ticks(0, last_x_);
    std::erase_if(columns_, [&](double x) { return x > last_x_; });
  }

  double x(double number) const { return kLeft + number / last_x_ * (kWidth - kLeft - kRight); }
  double y(double number) const {
    const double share = (number - rows_.front()) / (rows_.back() - rows_.front());
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }

  void draw_axes(Page& page, const ChartOptions& options) const {
    for (const double number : rows_) {
      page.colour(kGrid, 0.3);
      page.line(kLeft, y(number), kWidth - kRight, y(number), 1);
      page.colour(kText);
      page.text(short_number(number), kLeft - 8, y(number) + 4, 1);
    }
    for (const double number : columns_)
      page.text(short_number(number), x(number), kHeight - kBottom + 20, 0.5);
    page.text(options.x_label, (kLeft + kWidth - kRight) / 2, kHeight - 10, 0.5);
    page.text(options.title, kLeft, 26, 0, 15);
    if (!options.goal) return;
    page.colour(kGrid);
    const std::array<double, 2> dashes{5, 4};
    cairo_set_dash(page.get(), dashes.data(), dashes.size(), 0);
    page.line(kLeft, y(*options.goal), kWidth - kRight, y(*options.goal), 1);
    cairo_set_dash(page.get(), nullptr, 0, 0);
    page.colour(kText);
    page.text("goal " + short_number(*options.goal), kLeft + 6, y(*options.goal) - 5, 0, 11);
  }

  void draw(Page& page, const Curve& curve, const Colour& colour) const {
    auto* cairo = page.get();
    if (!curve.low.empty()) {
      follow(cairo, curve.x, curve.low);
      for (std::size_t i = curve.x.size(); i-- > 0;)
        cairo_line_to(cairo, x(curve.x[i]), y(curve.high[i]));
      cairo_close_path(cairo);
      page.colour(colour, 0.2);
      cairo_fill(cairo);
    }
    page.colour(colour, 0.4);
    cairo_set_line_width(cairo, 1);
    for (const auto& run : curve.lines) {
      follow(cairo, run.x, run.y);
      cairo_stroke(cairo);
    }
    follow(cairo, curve.x, curve.mean);
    page.colour(colour);
    cairo_set_line_width(cairo, 2);
    cairo_stroke(cairo);
  }

 private:
  void follow(cairo_t* cairo, const std::vector<double>& xs, const std::vector<double>& ys) const {
    cairo_new_path(cairo);
    for (std::size_t i = 0; i < xs.size(); ++i) cairo_line_to(cairo, x(xs[i]), y(ys[i]));
  }

  double last_x_ = 0;
  std::vector<double> rows_, columns_;
};

std::string legend_of(const Curve& curve) {
  const auto runs = fmt::format("{} run{}", curve.runs, curve.runs == 1 ? "" : "s");
  return curve.label.empty() ? runs : fmt::format("{} ({})", curve.label, runs);
}

}  // namespace

std::vector<double> ticks(double low, double high, int about) {
  const double rough = (high - low) / about, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5, 2, 1})
    if (factor * power >= rough) step = factor * power;
  std::vector<double> numbers;
  const auto last = std::llround(std::ceil(high / step - 1e-9));
  for (auto i = std::llround(std::floor(low / step)); i <= last; ++i)
    numbers.push_back(static_cast<double>(i) * step);
  return numbers;
}

void draw_chart(const std::filesystem::path& file, const std::vector<Curve>& curves,
                const ChartOptions& options) {
  Page page(file, kHeight + kLegendRow * (static_cast<double>(curves.size()) + 0.5));
  const Plot plot(curves, options);
  plot.draw_axes(page, options);
  double legend = kHeight + kLegendRow / 2;
  for (std::size_t i = 0; i < curves.size(); ++i, legend += kLegendRow) {
    plot.draw(page, curves[i], kColours[i % kColours.size()]);
    page.text(legend_of(curves[i]), kLeft, legend, 0);
  }
  page.finish();
}

}  // namespace shoal::cli
