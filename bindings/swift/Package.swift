// swift-tools-version:5.7
import PackageDescription

let package = Package(
    name: "tuffet",
    products: [.library(name: "Tuffet", targets: ["Tuffet"])],
    targets: [
        .systemLibrary(name: "CTuffet", pkgConfig: "tuffet-chat"),
        .target(name: "Tuffet", dependencies: ["CTuffet"]),
        .executableTarget(name: "generate", dependencies: ["Tuffet"]),
        .testTarget(name: "TuffetTests", dependencies: ["Tuffet"]),
    ]
)
