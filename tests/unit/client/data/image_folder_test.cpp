#include "client/data/image_folder.hpp"

#include <gmock/gmock.h>

#include "tests/support/picture_folder.hpp"

namespace npu::data {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> names(const ImageFolder& sut) {
  std::vector<std::string> out;
  for (size_t i = 0; i < sut.size(); ++i) out.push_back(sut.path(i).substr(sut.root().size() + 1));
  return out;
}

TEST(ImageFolder, ClassesAreSortedByBytesHiddenOnesToo) {
  const test::PictureFolder folder;
  for (const char* name : {"b", "B", "10", "2", ".hidden", "\xc3\xa9", "a b"}) {
    folder.file(std::string(name) + "/x.jpg", "");
  }
  folder.file("notes.txt", "not a class");
  const auto sut = ImageFolder::scan(folder.root());
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_THAT(sut->classes(), ElementsAre(".hidden", "10", "2", "B", "a b", "b", "\xc3\xa9"));
  EXPECT_EQ(sut->label(6), 6);
}

TEST(ImageFolder, FilesAreFoundAtAnyDepthInTorchvisionsOrder) {
  const test::PictureFolder folder;
  // os.walk's directories are sorted as whole strings: "c/a-b" before "c/a/b".
  for (const char* name :
       {"c/a/b/1.jpg", "c/a-b/2.JPG", "c/a/z.PNG", "c/z.webp", "c/B.TIFF", "c/no.txt", "c/jpg",
        "c/x.jpg.bak", "c/.jpeg", "c/y.bmp", "c/a/x.ppm", "c/a/w.pgm", "c/a/v.tif"}) {
    folder.file(name, "");
  }
  const auto sut = ImageFolder::scan(folder.root());
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_THAT(names(*sut),
              ElementsAre("c/.jpeg", "c/B.TIFF", "c/y.bmp", "c/z.webp", "c/a/v.tif", "c/a/w.pgm",
                          "c/a/x.ppm", "c/a/z.PNG", "c/a-b/2.JPG", "c/a/b/1.jpg"));
}

TEST(ImageFolder, LinksAreFollowed) {
  const test::PictureFolder folder;
  folder.file("real/1.jpg", "");
  fs::create_directory(folder.root() + "/set");
  fs::create_directory_symlink("../real", folder.root() + "/set/linked");
  folder.file("set/plain/2.jpg", "");
  fs::create_symlink("2.jpg", folder.root() + "/set/plain/3.jpg");
  const auto sut = ImageFolder::scan(folder.root() + "/set");
  ASSERT_TRUE(sut) << sut.error().message;
  EXPECT_THAT(names(*sut), ElementsAre("linked/1.jpg", "plain/2.jpg", "plain/3.jpg"));
}

TEST(ImageFolder, ALinkToAFolderAboveIsRefusedNotFollowedForEver) {
  const test::PictureFolder folder;
  folder.file("c/1.jpg", "");
  fs::create_directory_symlink("..", folder.root() + "/c/up");
  const auto sut = ImageFolder::scan(folder.root());
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBadData);
  EXPECT_THAT(sut.error().message, HasSubstr("link"));
}

TEST(ImageFolder, AllClassesWithoutAnImageAreInOneMessage) {
  const test::PictureFolder folder;
  folder.file("cat/1.jpg", "");
  folder.file("dog/notes.txt", "");
  fs::create_directory(folder.root() + "/owl");
  const auto sut = ImageFolder::scan(folder.root());
  ASSERT_FALSE(sut);
  EXPECT_EQ(sut.error().exit, Exit::kBadData);
  EXPECT_THAT(sut.error().message, AllOf(HasSubstr("'dog', 'owl'"), HasSubstr("2 of 3 classes"),
                                         Not(HasSubstr("'cat'")), HasSubstr("webp")));
}

TEST(ImageFolder, RootWithoutClassesOrNoRootAtAll) {
  const test::PictureFolder folder;
  folder.file("1.jpg", "");
  const auto flat = ImageFolder::scan(folder.root());
  ASSERT_FALSE(flat);
  EXPECT_THAT(flat.error().message, HasSubstr("no sub-folders"));
  const auto missing = ImageFolder::scan(folder.root() + "/none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().exit, Exit::kNoInput);
  EXPECT_THAT(missing.error().message, HasSubstr(folder.root() + "/none"));
}

TEST(FindSplits, TakesValThenValidationThenTest) {
  const test::PictureFolder folder;
  const auto split = [&] { return find_splits(folder.root()); };
  EXPECT_EQ(split().error().exit, Exit::kNoInput);
  EXPECT_THAT(split().error().message, HasSubstr("no folder 'train'"));
  fs::create_directory(folder.root() + "/train");
  EXPECT_THAT(split().error().message, HasSubstr("none of 'val', 'validation', 'test'"));
  for (const char* name : {"test", "validation", "val"}) {
    fs::create_directory(folder.root() + "/" + name);
    ASSERT_TRUE(split());
    EXPECT_EQ(split()->val, folder.root() + "/" + name);
  }
}

}  // namespace
}  // namespace npu::data
